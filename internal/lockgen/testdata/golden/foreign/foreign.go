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
)

type Order = basic.Order

type Foreign interface {
	//lockmw:lock {o.ID}
	Alias(ctx context.Context, o Order) (*basic.Receipt, error)
	//lockmw:lock {u.Host}
	Templates(ctx context.Context, u *url.URL, a template.HTML, b *texts.Template, r rand.Source) (redis.Z, error)
	basic.Orders2
}

var _ = crand.Text
