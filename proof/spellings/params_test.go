package spellings

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"
	"golang.org/x/text/unicode/norm"

	"github.com/lockmw/kit/proof/routers"
)

// errNothing is the answer of a handler that is given no object.
var errNothing = errors.New("nothing is named")

// A decoding is what a handler makes of a text.
type decoding func(string) (object string, err error)

func asText(s string) (string, error) {
	if s == "" {
		return "", errNothing
	}
	return s, nil
}

func atoi(s string) (string, error) {
	n, err := strconv.Atoi(s)
	return number(n, err)
}

func number[N int | int64](n N, err error) (string, error) {
	if err == nil && n == 0 {
		err = errNothing
	}
	return strconv.FormatInt(int64(n), 10), err
}

// anyBase reads numbers as Go's source code has them, and so does fmt.Sscan.
func anyBase(s string) (string, error) {
	n, err := strconv.ParseInt(s, 0, 64)
	return number(n, err)
}

func float(s string) (string, error) {
	f, err := strconv.ParseFloat(s, 64)
	return asFloat(f, err)
}

func asFloat(f float64, err error) (string, error) {
	if err == nil && f == 0 {
		err = errNothing
	}
	return fmt.Sprint(f), err
}

func asUUID(s string) (string, error) {
	id, err := uuid.Parse(s)
	return id.String(), err
}

// inFolder is the file that a name is in a folder.
func inFolder(s string) (string, error) { return path.Join("/srv", s), nil }

// asPath is what net/http's http.Dir makes of a name.
func asPath(s string) (string, error) { return path.Clean("/" + s), nil }

// with changes a text before it is decoded.
func (d decoding) with(change func(string) string) decoding {
	return func(s string) (string, error) { return d(change(s)) }
}

// unescaped is with a change that may fail.
func (d decoding) unescaped(unescape func(string) (string, error)) decoding {
	return func(s string) (string, error) {
		s, err := unescape(s)
		if err != nil {
			return "", err
		}
		return d(s)
	}
}

// placeholders are how routers write a parameter, and one that takes the rest of the path, and
// how that one is called.
var placeholders = map[string][3]string{
	"net/http":    {"{id}", "{id...}", "id"},
	"chi":         {"{id}", "*", "*"},
	"gorilla/mux": {"{id}", "{id:.*}", "id"},
	"httprouter":  {":id", "*id", "id"},
	"Gin":         {":id", "*id", "id"},
	"Echo v4":     {":id", "*", "*"},
	"Echo v5":     {":id", "*", "*"},
}

// allRouters are the names in routers.Routes, those of one router side by side.
var allRouters = []string{
	"net/http", "chi", "gorilla/mux", "gorilla/mux, UseEncodedPath", "httprouter",
	"Gin", "Gin, UseRawPath", "Gin, UseRawPath and no UnescapePathValues",
	"Echo v4", "Echo v5", "Echo v5, UseEscapedPathForMatching",
}

// perRouter returns a column for each router, with a handler that decodes a parameter, or the wildcard.
func perRouter(wildcard bool, decode decoding, filter string) (all []column) {
	for _, router := range allRouters {
		short, _, _ := strings.Cut(router, ",")
		of := placeholders[short]
		pattern, name := of[0], "id"
		if wildcard {
			pattern, name = of[1], of[2]
		}
		all = append(all, column{router, []string{router}, "/p/" + pattern, name, func(c routers.Call) (string, error) {
			return decode(c.Param(name))
		}, filter})
	}
	return all
}

// inOne is a column of one router's handler of a route with a parameter.
func inOne(name, router string, read reader, filter string) column {
	short, _, _ := strings.Cut(router, ",")
	return column{name, []string{router}, "/p/" + placeholders[short][0], "id", read, filter}
}

var numberNames = inPath(
	"42", "7", "%34%32", "4%32", "%2534%2532", "4%2532", "042", "00000042", "+42", "%2B42", "-42", "-042", "0", "-0", "00", "42.0", "4.2e1", "42e0",
	"0x2a", "0X2A", "0b101010", "0o52", "052", "34", "0_42", "4_2", "%2042", "42%20", "42%09", "42%0A", "42%00", "%EF%BC%94%EF%BC%92", "%D9%A4%D9%A2",
	"9223372036854775807", "9223372036854775808", "18446744073709551658", "42/", "42//", "42%2F", "/42", "%2F42", "./42", "%2E/42", "x/../42", "x%2F..%2F42",
	"42/.", "42?", "42?id=7", "42;id=7", "42%3Bid=7", "42%3Fid=7", "42%23", "42,7", "42%", "%zz", "%34%32?id=7", "",
)

var textNames = inPath(
	"ann", "Ann", "ANN", "bob", "%61nn", "%2561nn", "ann%20", "%20ann", "ann+", "ann%2B", "ann%C2%A0", "ann%0A", "ann%09", "ann%00", "ann.", "a%20b", "a+b", "a%2Bb",
	"a%252Bb", "caf%C3%A9", "cafe%CC%81", "CAF%C3%89", "%E2%84%AAim", "kim", "Kim", "%C5%BFam", "sam", "Sam", "%C4%B0nes", "ines", "%C4%B1nes", "INES", "stra%C3%9Fe",
	"stra%E1%BA%9Ee", "strasse", "%CF%83", "%CF%82", "%CE%A3", "ann%FF", "ann%FE", "ann%EF%BF%BD", "%EF%BB%BFann", "a;b", "a%3Bb", "a:b", "a%3Ab", "ann/", "ann%2F", "100%25", "100%2525",
)

var pathNames = inPath(
	"a/b", "a%2Fb", "a%2fb", "%61/b", "%2561/b", "a%252Fb", "a%25252Fb", "a//b", "a/./b", "./a/b", "x/../a/b", "x%2F..%2Fa/b", "x/%2E%2E/a/b", "a/b/", "a/b%2F", "/a/b",
	"%2Fa/b", "%2F%2Fa/b", "../p/a/b", "%2E%2E/p/a/b", "../a/b", "a%2F%2Fb", "a%2F.%2Fb", "a/b/.", "a/b/x/..", "a/c", "A/b", "a/b?x", "a/b;x", "a%5Cb", "a%00/b",
	"a/b%20", "42", "%34%32", "%2534%2532", "42/", "42%2F", "%2F42", ".%2F42", "42%2F.", ".", "%2E", "..", "%2E%2E", "", "/", "%2F", "100%25", "100%2525",
)

var uuidNames = inPath(
	"0f8fad5b-d9cb-469f-a165-70867728950e", "0F8FAD5B-D9CB-469F-A165-70867728950E", "0f8fad5bd9cb469fa16570867728950e", "urn:uuid:0f8fad5b-d9cb-469f-a165-70867728950e",
	"URN:UUID:0f8fad5b-d9cb-469f-a165-70867728950e", "%7B0f8fad5b-d9cb-469f-a165-70867728950e%7D", "%220f8fad5b-d9cb-469f-a165-70867728950e%22",
	"0f8fad5b-d9cb-469f-a165-70867728950f", "0f8fad5b-d9cb-469f-a165-70867728950e%20", "0f8fad5b-d9cb-469f-a16570867728950e", "42",
)

func paramTables() []table {
	text, trimmed := decoding(asText), decoding(asText).with(strings.TrimSpace)
	of := func(name string, spellings []spelling, columns ...column) table {
		return table{"Route parameter: " + name, "{param.$|}", columns, spellings}
	}
	file := func(name string, decode decoding) table {
		return table{"Wildcard: " + name, "{param.$|}", perRouter(true, decode, ""), pathNames}
	}
	return []table{
		of("a number, `strconv.Atoi`", numberNames, perRouter(false, atoi, "|int")...),
		of("a number, `strconv.Atoi` of a text that is unescaped again", numberNames, perRouter(false, decoding(atoi).unescaped(url.PathUnescape), "|int")...),
		of("a number, `strconv.ParseInt(s, 0, 64)`", numberNames, perRouter(false, anyBase, "|int")...),
		of("a number, `strconv.ParseFloat`", numberNames, perRouter(false, float, "|int")...),
		of("a number, `strings.TrimSpace` and `strconv.Atoi`", numberNames, perRouter(false, decoding(atoi).with(strings.TrimSpace), "|trim|int")...),
		of("a number, the frameworks' own", numberNames, ownNumbers()...),
		of("a text", textNames, perRouter(false, text, "")...),
		of("a text, `url.PathUnescape`", textNames, perRouter(false, text.unescaped(url.PathUnescape), "")...),
		of("a text, `url.QueryUnescape`", textNames, perRouter(false, text.unescaped(url.QueryUnescape), "")...),
		of("a text, `strings.ToLower`", textNames, perRouter(false, text.with(strings.ToLower), "|lower")...),
		of("a text, `strings.ToUpper`", textNames, perRouter(false, text.with(strings.ToUpper), "|lower")...),
		of("a text, `strings.TrimSpace`", textNames, perRouter(false, trimmed, "|trim")...),
		of("a text, `strings.TrimSpace` and `strings.ToLower`", textNames, perRouter(false, trimmed.with(strings.ToLower), "|trim|lower")...),
		of("a text, `norm.NFC`", textNames, perRouter(false, text.with(norm.NFC.String), "")...),
		of("a text, the frameworks' own", textNames, ownTexts()...),
		of("a UUID, `uuid.Parse`", uuidNames, perRouter(false, asUUID, "|uuid")...),
		file("a text", text),
		file("`path.Join`", inFolder),
		file("`path.Clean`", asPath),
		file("`url.PathUnescape` and `path.Join`", decoding(inFolder).unescaped(url.PathUnescape)),
	}
}

// ginURI binds the path into a T.
func ginURI[T any](object func(T) (string, error)) reader {
	return func(c routers.Call) (string, error) {
		var to struct {
			ID T `uri:"id"`
		}
		if err := c.Gin.ShouldBindUri(&to); err != nil {
			return "", err
		}
		return object(to.ID)
	}
}

type onlyParam[T any] struct {
	ID T `json:"-" param:"id" xml:"-"`
}

func echoBind[T any](object func(T) (string, error)) reader {
	return func(c routers.Call) (string, error) {
		var to onlyParam[T]
		if err := c.Echo.Bind(&to); err != nil {
			return "", err
		}
		return object(to.ID)
	}
}

func echo5Bind[T any](object func(T) (string, error)) reader {
	return func(c routers.Call) (string, error) {
		var to onlyParam[T]
		if err := c.Echo5.Bind(&to); err != nil {
			return "", err
		}
		return object(to.ID)
	}
}

func noError[T any](object func(T, error) (string, error)) func(T) (string, error) {
	return func(value T) (string, error) { return object(value, nil) }
}

func ownNumbers() []column {
	n := noError(number[int64])
	return []column{
		inOne("Gin `ShouldBindUri`", "Gin", ginURI(n), "|int"),
		inOne("Gin, UseRawPath, `ShouldBindUri`", "Gin, UseRawPath", ginURI(n), "|int"),
		inOne("Echo v4 `Bind`", "Echo v4", echoBind(n), "|int"),
		inOne("Echo v4 `PathParamsBinder`", "Echo v4", func(c routers.Call) (string, error) {
			var id int64
			err := echo.PathParamsBinder(c.Echo).Int64("id", &id).BindError()
			return number(id, err)
		}, "|int"),
		inOne("Echo v5 `Bind`", "Echo v5", echo5Bind(n), "|int"),
		inOne("Echo v5 `PathParam`", "Echo v5", func(c routers.Call) (string, error) {
			return number(echo5.PathParam[int64](c.Echo5, "id"))
		}, "|int"),
	}
}

func ownTexts() []column {
	return []column{
		inOne("Gin `ShouldBindUri`", "Gin", ginURI(asText), ""),
		inOne("Gin, UseRawPath, `ShouldBindUri`", "Gin, UseRawPath", ginURI(asText), ""),
		inOne("Echo v4 `Bind`", "Echo v4", echoBind(asText), ""),
		inOne("Echo v5 `Bind`", "Echo v5", echo5Bind(asText), ""),
	}
}
