package rpcdoor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
	"testing"

	"github.com/lockmw/kit/internal/rpcdoor"
)

// TestGoDocShowsWhatRulesAre: go doc shows of an alias its comment, and nothing of the type of an
// internal package that it stands for.
func TestGoDocShowsWhatRulesAre(t *testing.T) {
	var fields, methods []string
	for field := range reflect.TypeFor[rpcdoor.Rule]().Fields() {
		fields = append(fields, field.Name+" "+field.Type.String()+"\n")
	}
	for method := range reflect.TypeFor[rpcdoor.Rules]().Methods() {
		methods = append(methods, "r."+method.Name+"(code) returns")
	}
	for _, file := range []string{"../../grpclock/rules.go", "../../connectlock/rules.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][]string{"Rule": fields, "Rules": methods} {
			doc := docOf(parsed, name)
			if len(want) == 0 {
				t.Errorf("%s has nothing to show", name)
			}
			for _, line := range want {
				if !strings.Contains(doc, line) {
					t.Errorf("%s: the comment of %s does not have %q", file, name, line)
				}
			}
		}
	}
}

// docOf returns the comment of a type.
func docOf(file *ast.File, name string) string {
	for _, decl := range file.Decls {
		types, ok := decl.(*ast.GenDecl)
		if !ok || types.Tok != token.TYPE {
			continue
		}
		if spec, ok := types.Specs[0].(*ast.TypeSpec); ok && spec.Name.Name == name {
			return types.Doc.Text()
		}
	}
	return ""
}
