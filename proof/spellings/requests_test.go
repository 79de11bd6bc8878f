package spellings

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// shown is text as a row of table.md has it.
func shown(text string) string {
	quoted := strconv.QuoteToASCII(text)
	quoted = strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	return "`" + strings.ReplaceAll(quoted, "|", `\|`) + "`"
}

// inPath are requests for paths behind /p/.
func inPath(names ...string) (all []spelling) {
	for _, name := range names {
		all = append(all, spelling{shown("/p/" + name), request{target: "/p/" + name}})
	}
	return all
}

// inQuery are requests with a query, without a body.
func inQuery(queries ...string) (all []spelling) {
	for _, query := range queries {
		all = append(all, spelling{shown("?" + query), request{method: http.MethodGet, target: "/p?" + query}})
	}
	return all
}

const (
	urlencoded = "application/x-www-form-urlencoded"
	multipart  = "multipart/form-data; boundary=b"
)

// withBody is a request with a body of a type. The query may be empty.
func withBody(query, kind, body string) spelling {
	q := request{target: "/p" + query, body: body}
	name := shown(body)
	if kind != "" {
		q.headers = []string{"Content-Type: " + kind}
		name += ", " + shown(kind)
	}
	if query != "" {
		name += ", " + shown(query)
	}
	return spelling{name, q}
}

// inForm are requests with a URL-encoded form in the body.
func inForm(forms ...string) (all []spelling) {
	for _, form := range forms {
		s := withBody("", urlencoded, form)
		s.name = shown(form)
		all = append(all, s)
	}
	return all
}

// inJSON are requests with a JSON body.
func inJSON(bodies ...string) (all []spelling) {
	for _, body := range bodies {
		s := withBody("", "application/json", body)
		s.name = shown(body)
		all = append(all, s)
	}
	return all
}

// part is a part of a multipart form whose boundary is b.
func part(name, value string) string {
	return fmt.Sprintf("--b\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", name, value)
}

const lastPart = "--b--\r\n"

// withHeaders are requests with lines of a header.
func withHeaders(all ...[]string) (spellings []spelling) {
	for _, lines := range all {
		spellings = append(spellings, spelling{shown(strings.Join(lines, `, `)), request{headers: lines}})
	}
	return spellings
}
