package door

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// A Digest is a SHA-256 of texts, one after the other. No two lists of texts give the same: each text stands
// behind its length.
type Digest struct{ sum hash.Hash }

// NewDigest returns a Digest of these texts.
func NewDigest(texts ...string) Digest {
	d := Digest{sha256.New()}
	for _, text := range texts {
		d.Add(text)
	}
	return d
}

// Add adds a text.
func (d Digest) Add(text string) {
	_ = binary.Write(d.sum, binary.BigEndian, uint64(len(text))) // a hash takes everything
	_, _ = d.sum.Write([]byte(text))
}

// Sum returns the hash of the texts so far.
func (d Digest) Sum() []byte { return d.sum.Sum(nil) }
