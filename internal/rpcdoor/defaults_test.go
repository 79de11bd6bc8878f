package rpcdoor_test

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/lockmw/kit/internal/rpcdoor"
	"github.com/lockmw/kit/internal/test/testenv"
	"github.com/lockmw/kit/keyfunc"
	"github.com/lockmw/kit/lockmw"
)

// fieldsWithDefaults are the same in proto2 and in editions, where they are closed enums and
// fields with presence, too.
const fieldsWithDefaults = `
	enum_type { name: "Grade" value { name: "SECOND" number: 2 } value { name: "FIRST" number: 1 } value { name: "NONE" number: 0 } }
	message_type {
		name: "Order"
		field { name: "i" number: 1 label: LABEL_OPTIONAL type: TYPE_SINT64 default_value: "-7" }
		field { name: "u" number: 2 label: LABEL_OPTIONAL type: TYPE_FIXED32 default_value: "7" }
		field { name: "b" number: 3 label: LABEL_OPTIONAL type: TYPE_BOOL default_value: "true" }
		field { name: "s" number: 4 label: LABEL_OPTIONAL type: TYPE_STRING default_value: "main" }
		field { name: "raw" number: 5 label: LABEL_OPTIONAL type: TYPE_BYTES default_value: "\\001x" }
		field { name: "first" number: 6 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".defaults.Grade" }
		field { name: "grade" number: 7 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".defaults.Grade" default_value: "FIRST" }
		field { name: "inner" number: 8 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: ".defaults.Order" }
		field { name: "card" number: 9 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 0 default_value: "5" }
		field { name: "cash" number: 10 label: LABEL_OPTIONAL type: TYPE_INT32 oneof_index: 0 }
		field { name: "plain" number: 11 label: LABEL_OPTIONAL type: TYPE_INT32 }
		field { name: "zero" number: 12 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "0" }
		field { name: "off" number: 13 label: LABEL_OPTIONAL type: TYPE_BOOL default_value: "false" }
		field { name: "none" number: 14 label: LABEL_OPTIONAL type: TYPE_ENUM type_name: ".defaults.Grade" default_value: "NONE" }
		field { name: "text" number: 15 label: LABEL_OPTIONAL type: TYPE_STRING default_value: "" }
		oneof_decl { name: "way" }
	}`

// withDefaults returns the descriptor of a message whose fields have defaults.
func withDefaults(t *testing.T, file string) protoreflect.MessageDescriptor {
	t.Helper()
	var described descriptorpb.FileDescriptorProto
	if err := prototext.Unmarshal([]byte(file+fieldsWithDefaults), &described); err != nil {
		t.Fatal(err)
	}
	made, err := protodesc.NewFile(&described, nil)
	if err != nil {
		t.Fatal(err)
	}
	return made.Messages().ByName("Order")
}

// keyOf returns the key that template makes of a message; one that is refused has none.
func keyOf(t *testing.T, locks *lockmw.Locker, template string, m proto.Message) (key string, ok bool) {
	t.Helper()
	words := rpcdoor.Words{Package: "rpcdoor", Constructor: "New"}
	d := rpcdoor.New(rpcdoor.NewOptions(words, []func(*rpcdoor.Options){}), locks, rpcdoor.Rules{method: {Key: keyfunc.MustParse(template)}})
	lease, err := d.Enter(rpcdoor.Call{Context: t.Context(), Method: method, Headers: noHeaders{}}, d.Find(t.Context(), method), m)
	if errors.Is(err, keyfunc.ErrMissing) {
		return "", false
	}
	if err != nil {
		t.Fatalf("%s: %v", template, err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	return lease.Key(), true
}

// A handler that calls the getter of a field that is not set sees its default. So the request
// that leaves the field out and the one that sets it to the default are about one thing.
func TestFieldThatIsNotSetIsItsDefault(t *testing.T) {
	locks, _ := testenv.Locker(t)
	for syntax, file := range map[string]string{
		"proto2":   `name: "proto2.proto" package: "defaults" syntax: "proto2"`,
		"editions": `name: "editions.proto" package: "defaults" syntax: "editions" edition: EDITION_2023 options { features { enum_type: CLOSED } }`,
	} {
		order := withDefaults(t, file)
		parse := func(text string) proto.Message {
			m := dynamicpb.NewMessage(order)
			if err := prototext.Unmarshal([]byte(text), m); err != nil {
				t.Fatal(err)
			}
			return m
		}
		for _, tc := range []struct{ field, set, want string }{
			{"i", "-7", "-7"},
			{"u", "7", "7"},
			{"b", "true", "true"},
			{"s", "'main'", "main"},
			{"raw", "'\\001x'", "%01x"},
			{"first", "SECOND", "2"},
			{"grade", "FIRST", "1"},
			{"card", "5", "5"},
		} {
			for _, filter := range []string{"", "?"} {
				for message, template := range map[string]string{
					"":                            "{body." + tc.field + filter + "}",
					tc.field + ": " + tc.set:      "{body." + tc.field + filter + "}",
					"plain: 1":                    "{body.inner.inner." + tc.field + filter + "}",
					"inner {}":                    "{body.inner.inner." + tc.field + filter + "}",
					"inner { inner {} }":          "{body.inner.inner." + tc.field + filter + "}",
					"inner { inner { cash: 1 } }": "{body.inner.inner." + tc.field + filter + "}",
					"inner { " + tc.field + ": " + tc.set + " }": "{body.inner." + tc.field + filter + "}",
				} {
					if got, _ := keyOf(t, locks, template, parse(message)); got != tc.want {
						t.Errorf("%s: %s of {%s}: key = %q, want %q", syntax, template, message, got, tc.want)
					}
				}
			}
		}
		if got, _ := keyOf(t, locks, "{body.i}", parse("i: 0")); got != "0" {
			t.Errorf("%s: a field that is set to 0 is %q", syntax, got)
		}
		// Where the default is zero, a missing field is missing, as in proto3.
		for _, field := range []string{"plain", "zero", "off", "none", "text", "inner.plain", "inner.zero"} {
			if got, ok := keyOf(t, locks, "{body."+field+"}", parse("")); ok {
				t.Errorf("%s: %s that is not set is %q", syntax, field, got)
			}
		}
	}
}

// Generated code has the getters that the keys follow.
func TestFieldThatIsNotSetIsWhatItsGetterReturns(t *testing.T) {
	locks, _ := testenv.Locker(t)
	for _, m := range []*descriptorpb.FileOptions{{}, nil, {OptimizeFor: descriptorpb.FileOptions_SPEED.Enum()}} {
		if got, _ := keyOf(t, locks, "{body.optimize_for?|int}", m); got != "1" || m.GetOptimizeFor() != 1 {
			t.Errorf("%v: key = %q, the getter returns %d", m, got, m.GetOptimizeFor())
		}
	}
	for _, m := range []*descriptorpb.FileDescriptorProto{{}, {Options: &descriptorpb.FileOptions{}}} {
		if got, _ := keyOf(t, locks, "{body.options.ccEnableArenas}", m); got != "true" || !m.GetOptions().GetCcEnableArenas() {
			t.Errorf("%v: key = %q, the getters return %v", m, got, m.GetOptions().GetCcEnableArenas())
		}
	}
}
