// Package foreign has types of other packages, two of which have one name.
package foreign

import (
	"context"
	crand "crypto/rand"
	"html/template"
	"math/rand"
	"net/url"
	texts "text/template"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/kit/internal/lockgen/testdata/golden/basic"
	"github.com/lockmw/kit/internal/lockgen/testdata/golden/foreign/partner"
)

type Order = basic.Order

type Foreign interface {
	//lockmw:lock {o.ID}
	Alias(ctx context.Context, o Order) (*basic.Receipt, error)
	//lockmw:lock {u.Host}
	Templates(ctx context.Context, u *url.URL, a template.HTML, b *texts.Template, r rand.Source) (redis.Z, error)
	basic.Orders2
}

// Shop has methods of partner.Base that only package partner can write; its decorator is
// without them.
type Shop struct{ partner.Base }

//lockmw:lock {by.ID}
func (*Shop) Open(ctx context.Context, by partner.Shown) (partner.Shown, error) { return by, ctx.Err() }

var _ = crand.Text
