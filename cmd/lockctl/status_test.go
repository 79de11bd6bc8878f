package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

func TestPackageCommentExplainsTheExitStatusesLikeTheHelp(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	words := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	if comment := words(file.Doc.Text()); !strings.Contains(comment, words(exitStatuses)) {
		t.Errorf("the comment of package main lacks what the help says:\n%s", exitStatuses)
	}
}
