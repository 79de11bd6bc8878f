package rpcdoor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockmw/kit/internal/door"
	"github.com/lockmw/kit/lockmw"
)

// An Answer is what is kept of the answer to a call. The Codec of a Flight is given one, to be encoded as it likes: encoding/json
// can do it.
type Answer struct {
	NotKept bool    `json:"not_kept,omitempty"` // there was an answer, and it is not here
	Reply   []byte  `json:"reply,omitempty"`    // the message, in the encoding of protobuf
	Status  []byte  `json:"status,omitempty"`   // in place of the message: a google.rpc.Status, in that encoding
	Header  []Field `json:"header,omitempty"`
	Trailer []Field `json:"trailer,omitempty"`
}

// A Field is a value of a header or trailer, which may be any bytes where the name ends in -bin.
type Field struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// A Replay is an answer that is given again.
type Replay struct {
	Reply           proto.Message  // nil if the call has failed
	Status          *status.Status // of a call that has failed
	Header, Trailer map[string][]string
}

// replayedName is the header of an answer that is given again, as gRPC writes names.
var replayedName = strings.ToLower(door.Replayed)

// keptOf returns what is kept. The error says that it cannot be given again.
func keptOf(made Made, reply protoreflect.MessageType) (a Answer, err error) {
	a.Header, a.Trailer = fieldsOf(made.Header), fieldsOf(made.Trailer)
	if made.Err != nil {
		if made.As.GetCode() == ok {
			return a, errors.New("an error has the code OK")
		}
		a.Status, err = proto.Marshal(made.As)
		return a, err
	}
	m, is := messageOf(made.Reply)
	if !is || m.ProtoReflect().Descriptor().FullName() != reply.Descriptor().FullName() {
		return a, fmt.Errorf("a reply is a %T and no %s", made.Reply, reply.Descriptor().FullName())
	}
	a.Reply, err = proto.MarshalOptions{AllowPartial: true}.Marshal(m)
	return a, err
}

// replay returns what a call is answered with. The error Is lockmw.ErrAnswerNotKept, or says that the answer cannot be read.
func (a Answer) replay(reply protoreflect.MessageType) (*Replay, error) {
	if a.NotKept {
		return nil, lockmw.ErrAnswerNotKept
	}
	r := &Replay{Header: headerOf(a.Header), Trailer: headerOf(a.Trailer)}
	r.Header[replayedName] = []string{"true"}
	if a.Status != nil {
		r.Status = new(status.Status)
		if err := proto.Unmarshal(a.Status, r.Status); err != nil || r.Status.GetCode() == ok {
			return nil, errors.New("the status that is kept cannot be read")
		}
		return r, nil
	}
	r.Reply = reply.New().Interface()
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(a.Reply, r.Reply); err != nil {
		return nil, fmt.Errorf("the reply that is kept cannot be read as %s", reply.Descriptor().FullName())
	}
	return r, nil
}

// messageOf returns a message, which may come from an old code generator.
func messageOf(message any) (proto.Message, bool) {
	switch m := message.(type) {
	case proto.Message:
		return m, true
	case protoadapt.MessageV1:
		return protoadapt.MessageV2Of(m), true
	}
	return nil, false
}

// fieldsOf returns what is kept of a header.
func fieldsOf(header map[string][]string) (fields []Field) {
	for name, values := range header {
		for _, value := range values {
			if mayBeKept(name, value) {
				fields = append(fields, Field{name, []byte(value)})
			}
		}
	}
	slices.SortStableFunc(fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
	return fields
}

// headerOf returns the header of which fields were kept. They are looked at again: who can write to Redis
// can write answers.
func headerOf(fields []Field) map[string][]string {
	header := make(map[string][]string)
	for _, f := range fields {
		if value := string(f.Value); mayBeKept(f.Name, value) {
			header[f.Name] = append(header[f.Name], value)
		}
	}
	return header
}

// Names that belong to a protocol, and not to an answer.
var (
	reservedNames    = []string{"content-type", "content-encoding"}
	reservedPrefixes = []string{"grpc-", "connect-", "trailer-", "accept-"}
)

// mayBeKept reports whether a value of a header is part of an answer, and can be sent.
func mayBeKept(name, value string) bool {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" ||
		door.IsNeverKept(name) || slices.Contains(reservedNames, name) {
		return false
	}
	if slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return false
	}
	return strings.HasSuffix(name, "-bin") || !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' })
}

// An answerCodec encodes an Answer as a line of JSON and the bytes of its message or status.
type answerCodec struct{}

// A headline is that line.
type headline struct {
	Is      string  `json:"is"` // what follows
	Header  []Field `json:"header,omitempty"`
	Trailer []Field `json:"trailer,omitempty"`
}

const (
	isReply   = "reply"
	isStatus  = "status"
	isNotKept = "not kept"
)

// Name returns the name of the encoding.
func (answerCodec) Name() string { return "rpc" }

// Encode returns the bytes of an Answer.
func (answerCodec) Encode(_ string, answer any) ([]byte, error) {
	a, is := answer.(Answer)
	if !is {
		return nil, fmt.Errorf("rpcdoor: an answer is a %T", answer)
	}
	line, body := headline{isReply, a.Header, a.Trailer}, a.Reply
	switch {
	case a.NotKept:
		line, body = headline{Is: isNotKept}, nil
	case a.Status != nil:
		line.Is, body = isStatus, a.Status
	}
	data, err := json.Marshal(line)
	return append(append(data, '\n'), body...), err
}

// Decode makes an Answer of bytes.
func (answerCodec) Decode(_ string, data []byte, answer any) error {
	a, is := answer.(*Answer)
	head, body, cut := bytes.Cut(data, []byte("\n"))
	var line headline
	if !is || !cut {
		return errors.New("rpcdoor: it is not the answer to a call")
	}
	if err := json.Unmarshal(head, &line); err != nil {
		return err
	}
	*a = Answer{Header: line.Header, Trailer: line.Trailer}
	switch line.Is {
	case isReply:
		a.Reply = body
	case isStatus:
		a.Status = body
	case isNotKept:
		a.NotKept = true
	default:
		return fmt.Errorf("rpcdoor: it is a %q, which this version does not know", line.Is)
	}
	return nil
}
