package lockmwv1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lockmw/kit/grpclock/lockmwv1"
)

// The text is that of the file which this package was generated of: it has every field.
func TestProtoIsTheFilesText(t *testing.T) {
	file := lockmwv1.File_lockmw_v1_lock_proto
	if got, want := file.Path(), "lockmw/v1/lock.proto"; got != want {
		t.Errorf("users import %q, want %q", got, want)
	}
	want := []string{
		fmt.Sprintf("package %s;", file.Package()),
		fmt.Sprintf("Lock lock = %d;", lockmwv1.E_Lock.TypeDescriptor().Number()),
	}
	fields := (*lockmwv1.Lock)(nil).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		want = append(want, fmt.Sprintf(" %s = %d;", fields.Get(i).Name(), fields.Get(i).Number()))
	}
	for _, part := range want {
		if !strings.Contains(lockmwv1.Proto, part) {
			t.Errorf("the text does not say %q", part)
		}
	}
}
