package door

import (
	"errors"
	"strings"
	"testing"
)

// A textCodec encodes texts, and refuses those with that in them.
type textCodec struct{ refuses string }

var errCodec = errors.New("no key to encrypt with")

func (textCodec) Name() string { return "text" }

func (c textCodec) Encode(_ string, answer any) ([]byte, error) {
	if text := answer.(string); c.refuses == "" || !strings.Contains(text, c.refuses) {
		return []byte(text), nil
	}
	return nil, errCodec
}

func (textCodec) Decode(_ string, data []byte, answer any) error {
	*answer.(*string) = string(data)
	return nil
}

func TestTheBareFactIsKeptOfWhatCannotBe(t *testing.T) {
	for name, tc := range map[string]struct {
		codec        textCodec
		most         int
		answer, want string
		refused, err error
	}{
		"small":              {textCodec{}, 6, "answer", "answer", nil, nil},
		"too large":          {textCodec{}, 5, "answer", "fact", nil, nil},
		"refused":            {textCodec{"answer"}, 6, "answer", "fact", errCodec, nil},
		"all is refused":     {textCodec{"a"}, 6, "answer", "", errCodec, errCodec},
		"no room for a fact": {textCodec{}, 1, "answer", "fact", nil, nil},
	} {
		b := &boundCodec{Codec: tc.codec, most: tc.most, fact: "fact"}
		data, err := b.Encode("k", tc.answer)
		if string(data) != tc.want || !errors.Is(err, tc.err) || !errors.Is(b.refused, tc.refused) {
			t.Errorf("%s: %q, %v, refused: %v; want %q, %v, %v", name, data, err, b.refused, tc.want, tc.err, tc.refused)
		}
	}
}
