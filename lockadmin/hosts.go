package lockadmin

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// WithHosts sets the names by which browsers ask for the page, such as locks.internal. A name
// is what people type as the address, without a port. International names are given in
// punycode (xn--…). The page answers to these names on any port, in any case, and with or
// without a dot at the end. A name in a domain below is another name. Several WithHosts add
// up.
//
// With or without it, the page answers to IP addresses and to localhost. It answers to any
// other name with 403, because of DNS rebinding: whoever owns a name can make it point to the
// page's address, in the browser of an operator who visits a site of that name. The browser
// then takes page and site for one, and lets the site read all locks and release them. Nobody
// can make an IP address or localhost point elsewhere.
//
// What counts is the request's Host, wherever the request comes from. X-Forwarded-Host is not
// believed, so a proxy in front must keep Host. This holds in tests, too: requests of
// httptest.NewRequest are for example.com, unless they say otherwise.
//
// Handler panics if a name is empty, or has other characters than letters, digits, dots, - and
// _.
func WithHosts(names ...string) Option {
	return func(o *options) {
		for _, name := range names {
			if !isName(canonical(name)) {
				panic(fmt.Sprintf("lockadmin: WithHosts: %q is not the name of a host alone, such as locks.internal", name))
			}
			o.hosts = append(o.hosts, canonical(name))
		}
	}
}

// canonical is the name of a host as names are compared.
func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func isName(host string) bool {
	return host != "" && strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-_") == ""
}

// withoutPort is what stands in a Host in front of its port, or all of it where that is none.
func withoutPort(host string) string {
	at := strings.LastIndexByte(host, ':')
	if at < 0 || at < strings.IndexByte(host, ']') || strings.Trim(host[at+1:], "0123456789") != "" {
		return host
	}
	return host[:at]
}

// answersTo reports whether r asks for the page by an address, or by one of its names.
func (c *console) answersTo(r *http.Request) bool {
	host := canonical(withoutPort(r.Host))
	address, v6 := strings.CutPrefix(host, "[")
	if v6 {
		address, v6 = strings.CutSuffix(address, "]")
	}
	ip, err := netip.ParseAddr(address)
	return err == nil && ip.Is6() == v6 || host == "localhost" || slices.Contains(c.options.hosts, host)
}

// misnamed answers a request for another name than the page's.
func (c *console) misnamed(w http.ResponseWriter, r *http.Request) {
	name := canonical(withoutPort(r.Host))
	if !isName(name) {
		name = "locks.internal"
	}
	http.Error(w, fmt.Sprintf("This page does not answer to the name by which it was asked for: a site of that name might be asking.\n"+
		"If the name is the page's own, tell it: lockadmin.WithHosts(%q). It also answers to IP addresses and to localhost.", name), http.StatusForbidden)
}
