package main

import (
	"fmt"
	"io"
)

// announce says what to try while the shops are open.
func announce(w io.Writer, shops []string, ledger string, db *database) {
	first, last := shops[0], shops[len(shops)-1]
	fmt.Fprintf(w, `%d shops are open. Redis: %s. Try in another terminal:

  # Pay order 7 at one shop, and take ten seconds for it.
  curl -X POST '%s/orders/7/pay?hold=10s' &

  # Meanwhile at another shop: a refund does not wait, it gets its 409 at once.
  curl -i -X POST %[4]s/orders/7/refund

  # Another order is free. A second payment of the same waits in line.
  curl -X POST %[4]s/orders/8/pay
  curl -X POST %[4]s/orders/7/pay

  # What the ledger holds.
  curl %[5]s/accounts/7

Ctrl-C ends it.
`, len(shops), db, first, last, ledger)
}
