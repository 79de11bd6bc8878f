package door

import "github.com/lockmw/kit/lockmw"

// roomForFact is how many bytes the bare fact may have, in whatever encoding, where fewer are allowed.
const roomForFact = 4 << 10

// A boundCodec encodes one answer. Of one that is too large, or that its Codec refuses, it keeps the bare fact: without that the work would be done
// again. So Do, to which a large answer is an error, must have room for that.
type boundCodec struct {
	lockmw.Codec
	most    int
	fact    any
	refused error // by the Codec
}

// Encode returns at most b.most bytes, or those of the bare fact.
func (b *boundCodec) Encode(key string, answer any) ([]byte, error) {
	data, err := b.Codec.Encode(key, answer)
	if err == nil && len(data) <= b.most {
		return data, nil
	}
	b.refused = err
	return b.Codec.Encode(key, b.fact)
}
