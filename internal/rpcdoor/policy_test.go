package rpcdoor

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockmw/kit/grpclock/lockmwv1"
	"github.com/lockmw/kit/lockmw"
)

// wordEnd matches where a word of a Go name ends: RetryAfter is retry_after in a .proto file.
var wordEnd = regexp.MustCompile(`([a-z])([A-Z])`)

// What a policy says in Go can be said in an annotation, and docs/policy.md says what it is.
func TestEveryFieldOfAPolicyIsInLockProtoAndDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := (*lockmwv1.Lock)(nil).ProtoReflect().Descriptor().Fields()
	for field := range reflect.TypeFor[lockmw.Policy]().Fields() {
		name := strings.ToLower(wordEnd.ReplaceAllString(field.Name, "${1}_${2}"))
		if fields.ByName(protoreflect.Name(name)) == nil {
			t.Errorf("lock.proto has no field %s: add it, run make generate, and read it in annotated.go", name)
		}
		if !strings.Contains(string(page), "\n| `"+field.Name+"` |") {
			t.Errorf("the table in docs/policy.md has no line for %s", field.Name)
		}
	}
}
