package grpclock_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/lockmw/kit/grpclock"
	"github.com/lockmw/kit/internal/test/rpctest/testpb"
	"github.com/lockmw/kit/lockmw"
)

const annotatedService = "lockmwtest.v1.Annotated"

func TestAnnotationsAreRules(t *testing.T) {
	rules, err := grpclock.Annotated(annotatedService)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]lockmw.Policy{
		"/lockmwtest.v1.Annotated/Full": {
			Prefix: "pay:", TTL: 9 * time.Second, Wait: 2 * time.Second, Retries: 3, RetryInterval: 200 * time.Millisecond,
			MaxHold: time.Minute, MinHold: time.Millisecond, MinHoldOnError: true, FailOpen: true, Name: "pay", RetryAfter: 5 * time.Second,
		},
		"/lockmwtest.v1.Annotated/Forever": {Retries: lockmw.Forever},
		"/lockmwtest.v1.Annotated/Stream":  {},
	}
	if got, want := slices.Sorted(maps.Keys(rules)), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
		t.Errorf("rules for %q, want %q", got, want)
	}
	for name, policy := range want {
		if got := rules[name].Policy; got != policy {
			t.Errorf("%s: policy %+v, want %+v", name, got, policy)
		}
	}
	locked := named()
	locked["/lockmwtest.v1.Annotated/Full"] = rules["/lockmwtest.v1.Annotated/Full"]
	interceptor := grpclock.UnaryServerInterceptor(newLocker(t), locked)
	if got, want := lockOf(t, interceptor, "/lockmwtest.v1.Annotated/Full"), "pay:order:"+id; got != want {
		t.Errorf("the call runs under %q, want %q", got, want)
	}
}

// A service that is named and has no annotation would run without a lock.
func TestServiceWithoutAnnotationsIsAnError(t *testing.T) {
	_, err := grpclock.Annotated(annotatedService, "lockmwtest.v1.Shop")
	if err == nil || !strings.Contains(err.Error(), "no method of lockmwtest.v1.Shop has the option") {
		t.Errorf("err = %v", err)
	}
}

// So would all, where the package with the annotations is not imported.
func TestProgramWithoutAnnotationsIsAnError(t *testing.T) {
	knowNoFiles(t)
	rules, err := grpclock.Annotated()
	const want = "grpclock: Annotated: no method that this program knows has the option (lockmw.v1.lock): all would run without a lock; import the package generated of its .proto file"
	if fmt.Sprint(err) != want || rules != nil {
		t.Errorf("%d rules, err = %v\nwant %s", len(rules), err, want)
	}
}

// knowNoFiles has the program know no .proto file until the test ends.
func knowNoFiles(t *testing.T) {
	all := protoregistry.GlobalFiles
	protoregistry.GlobalFiles = new(protoregistry.Files)
	t.Cleanup(func() { protoregistry.GlobalFiles = all })
}

func TestWrongAnnotationsAreErrors(t *testing.T) {
	all := map[string]string{
		"Empty":    "it has no key",
		"Template": `column 7`,
		"Field":    `lockmwtest.v1.Order has no field "nothing"`,
		"Source":   `its Key needs the route parameter "id"`,
		"Short":    "invalid policy: TTL",
		"Long":     "wait: 300000000000 seconds are more",
		"Both":     "both retries (3) and retry_forever",
		"Negative": "invalid policy: Retries",
		"Mode":     "mode: 7 is neither",
	}
	for _, services := range [][]string{{"lockmwtest.v1.Mistaken"}, {annotatedService, "lockmwtest.v1.Mistaken"}, {}} {
		rules, err := grpclock.Annotated(services...)
		if err == nil || rules != nil {
			t.Fatalf("of %q: %v, %v; want an error and no rules", services, rules, err)
		}
		lines := strings.Split(err.Error(), "\n")
		if got := strings.Count(err.Error(), "grpclock: "); got != len(all) {
			t.Errorf("%d errors, want %d:\n%v", got, len(all), err)
		}
		for method, want := range all {
			if !slices.ContainsFunc(lines, func(line string) bool {
				return strings.HasPrefix(line, "grpclock: annotation of lockmwtest.v1.Mistaken."+method+": ") && strings.Contains(line, want)
			}) {
				t.Errorf("no error of %s: … %s:\n%v", method, want, err)
			}
		}
	}
}

func TestUnknownServicesAreErrors(t *testing.T) {
	for _, name := range []string{"elsewhere.Shop", "", "/" + annotatedService, "lockmwtest.v1.Order", annotatedService + ".Full"} {
		rules, err := grpclock.Annotated(annotatedService, name)
		if err == nil || rules != nil || !strings.Contains(err.Error(), `no service "`+name+`"`) {
			t.Errorf("of %q: %v, %v; want an error that names it, and no rules", name, rules, err)
		}
	}
}

// TestAnnotationThatWasReadAsUnknownBytesIsFound: a descriptor that a program
// loads itself, as a proxy does, has options that were read without knowing
// what extensions there are.
func TestAnnotationThatWasReadAsUnknownBytesIsFound(t *testing.T) {
	file := protodesc.ToFileDescriptorProto(testpb.File_lockmwtest_v1_shop_proto)
	file.Name, file.Package = new("loaded.proto"), new("loaded.v1")
	file.MessageType, file.EnumType = nil, nil
	file.Dependency = []string{testpb.File_lockmwtest_v1_shop_proto.Path()}
	file.Service = slices.DeleteFunc(file.GetService(), func(s *descriptorpb.ServiceDescriptorProto) bool { return s.GetName() != "Annotated" })
	bytes, err := proto.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	var loaded descriptorpb.FileDescriptorProto
	if err := (proto.UnmarshalOptions{Resolver: new(protoregistry.Types)}).Unmarshal(bytes, &loaded); err != nil {
		t.Fatal(err)
	}
	built, err := protodesc.NewFile(&loaded, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	knowNoFiles(t) // beside this one, which cannot be registered twice
	if err := protoregistry.GlobalFiles.RegisterFile(built); err != nil {
		t.Fatal(err)
	}
	options := built.Services().Get(0).Methods().ByName("Full").Options().(*descriptorpb.MethodOptions)
	if len(options.ProtoReflect().GetUnknown()) == 0 {
		t.Fatal("the options are known")
	}
	rules, err := grpclock.Annotated("loaded.v1.Annotated")
	if err != nil || len(rules) != 3 {
		t.Errorf("%d rules, %v; want 3", len(rules), err)
	}
}
