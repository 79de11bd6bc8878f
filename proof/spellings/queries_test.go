package spellings

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gin-gonic/gin/binding"
	"github.com/gorilla/schema"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"

	"github.com/lockmw/kit/proof/routers"
)

var queryNumbers = inQuery(
	"id=42", "id=7", "id=42&id=42", "id=42&id=7", "id=7&id=42", "id=42&id=042", "id=42&id=", "id=&id=42", "id=42&id", "id&id=42", "id=42&ID=7", "ID=42", "Id=42&id=42",
	"%69d=42", "id=7&%69d=42", "i%64=42&id=42", "id=%34%32", "id=%2534%2532", "id[]=42", "id%5B%5D=42", "id=42&id[]=7", "id[0]=42", "id.0=42", "id=42&id.0=7",
	"id=42;id=7", "id=42;x", "x=1;id=42", "x=1;&id=42", "id=42&x=1;id=7", "id=42&amp;id=7", "&id=42&", "id==42", "id=42=", "id=%zz", "id=42&x=%zz", "id=42&id=%zz", "%zz=1&id=42",
	"id=042", "id=+42", "id=%2B42", "id=-42", "id=42.0", "id=4.2e1", "id=0x2a", "id=052", "id=4_2", "id=42%20", "id=42+", "id=%2042", "id=42%00", "id=%EF%BC%94%EF%BC%92",
	"id%00=42", "id+=42", "+id=42", "%20id=42", "id%20=42&id=7", "id=42?id=7", "id=42%26id=7", "id=42,7", "id=null", "id=0", "id=-0", "id=", "id", "",
	"id=9223372036854775808", "id=18446744073709551658", "%C4%B0d=42", "%C4%B1d=42&id=7", "_id=42", "id=42&filter[id]=7", "id=42#id=7",
)

var queryTexts = inQuery(
	"id=ann", "id=bob", "id=Ann", "id=%61nn", "id=ann&id=ann", "id=ann&id=bob", "id=bob&id=ann", "id=ann&%69d=bob", "id=ann&ID=bob", "id=ann&id=", "id[]=ann", "id=ann&id[]=bob",
	"id=ann;id=bob", "x=1;id=ann", "id=ann+", "id=ann%20", "id=+ann", "id=a+b", "id=a%20b", "id=a%2Bb", "id=a%252Bb", "id=ann%00", "id=ann%FF", "id=ann%EF%BF%BD",
	"id=caf%C3%A9", "id=cafe%CC%81", "id=%zz", "id=ann&id=%zz", "id=a=b", "id=a%3Db", "id=a/b", "id=a%2Fb", "id=", "",
)

// queryAndBody are requests in which a form in the body has the name as well.
func queryAndBody() []spelling {
	return []spelling{
		withBody("?id=42", "", ""),
		withBody("?id=42", urlencoded, "id=42"),
		withBody("?id=42", urlencoded, "id=7"),
		withBody("?id=42", urlencoded, "%69d=7"),
		withBody("?id=42", urlencoded, "ID=7"),
		withBody("?id=42", urlencoded, "x=7"),
		withBody("", urlencoded, "id=42"),
		withBody("?id=42", urlencoded+"; charset=utf-16", "id=7"),
		withBody("?id=42", "Application/X-WWW-Form-URLencoded; =", "id=7"),
		withBody("?id=42", multipart, part("id", "7")+lastPart),
		withBody("?id=42", multipart, part("x", "7")+lastPart),
		withBody("?id=42", multipart, part("ID", "7")+lastPart),
		withBody("?id=42", "multipart/mixed; boundary=b", part("id", "7")+lastPart),
		withBody("?id=42", "application/json", `{"id":7}`),
		withBody("?id=42", "", "id=7"),
	}
}

var formNumbers = append(inForm(
	"id=42", "id=7", "id=42&id=42", "id=42&id=7", "id=7&id=42", "id=42&id=", "id=&id=42", "id=42&ID=7", "ID=42", "%69d=42", "id=7&%69d=42", "id=%34%32", "id=%2534%2532",
	"id[]=42", "id=42&id[]=7", "id[0]=42", "id.0=42", "id=42&id.0=7", "id=42;id=7", "x=1;id=42", "x=1;&id=42", "&id=42&", "id==42", "id=%zz", "id=42&x=%zz", "id=042", "id=+42", "id=%2B42",
	"id=42.0", "id=4.2e1", "id=0x2a", "id=052", "id=42%20", "id=42+", "id=%2042", "id+=42", "id=42,7", "id=null", "id=0", "id=", "id", "x=1", "id=18446744073709551658",
	"\ufeffid=42", "id=42\r\n", "id=42\n", "%C4%B0d=42",
),
	withBody("", urlencoded+"; charset=utf-8", "id=42"),
	withBody("", "Application/X-WWW-Form-URLencoded", "id=42"),
	withBody("?id=7", urlencoded, "id=42"),
	withBody("?id=42", urlencoded, "id=42"),
	withBody("?ID=7", urlencoded, "id=42"),
	withBody("?id=7", urlencoded, "x=1"),
	withBody("", multipart, part("id", "42")+lastPart),
	withBody("", multipart, part("id", "7")+lastPart),
	withBody("", multipart, part("id", "042")+lastPart),
	withBody("", multipart, part("id", "42")+part("id", "7")+lastPart),
	withBody("", multipart, part("id", "42")+part("id", "42")+lastPart),
	withBody("", multipart, part("id", "42")+part("ID", "7")+lastPart),
	withBody("", multipart, part("id", "42")+lastPart+part("id", "7")),
	withBody("?id=7", multipart, part("id", "42")+lastPart),
	withBody("", multipart, "--b\r\nContent-Disposition: form-data; name=\"id\"; filename=\"x\"\r\n\r\n42\r\n--b--\r\n"),
	withBody("", multipart, "--b\r\nContent-Disposition: form-data; name=id\r\n\r\n42\r\n--b--\r\n"),
	withBody("", multipart, "--b\r\nContent-Disposition: form-data; name*=utf-8''id\r\n\r\n42\r\n--b--\r\n"),
	withBody("", multipart, "--b\r\nContent-Disposition: form-data; name=\"x\"; name=\"id\"\r\n\r\n42\r\n--b--\r\n"),
	withBody("", "multipart/form-data", part("id", "42")+lastPart),
	withBody("", "multipart/mixed; boundary=b", part("id", "42")+lastPart),
	withBody("", "application/json", `{"id":42}`),
	withBody("", "text/plain", "id=42"),
	withBody("", "", "id=42"),
)

// strict is a decoder of gorilla/schema that takes names that no field has.
var strict = func() *schema.Decoder {
	d := schema.NewDecoder()
	d.IgnoreUnknownKeys(true)
	return d
}()

// schemaOf decodes values into a T.
func schemaOf[T any](values url.Values, object func(T) (string, error)) (string, error) {
	var to struct {
		ID T `schema:"id"`
	}
	if err := strict.Decode(&to, values); err != nil {
		return "", err
	}
	return object(to.ID)
}

// A bound is what binders of both frameworks bind to.
type bound[T any] struct {
	ID T `form:"id" header:"id" json:"id" query:"id"`
}

// ginBinds binds with one of Gin's bindings; nil leaves the choice to ShouldBind.
func ginBinds[T any](b binding.Binding, object func(T) (string, error)) reader {
	return func(c routers.Call) (string, error) {
		var to bound[T]
		bind := func(to any) error { return c.Gin.ShouldBindWith(to, b) }
		if b == nil {
			bind = c.Gin.ShouldBind
		}
		if err := bind(&to); err != nil {
			return "", err
		}
		return object(to.ID)
	}
}

// echoBinds binds with a function of the version of Echo whose context is C.
func echoBinds[T, C any](context func(routers.Call) C, bind func(C, any) error, object func(T) (string, error)) reader {
	return func(c routers.Call) (string, error) {
		var to bound[T]
		if err := bind(context(c), &to); err != nil {
			return "", err
		}
		return object(to.ID)
	}
}

func of4(c routers.Call) echo.Context   { return c.Echo }
func of5(c routers.Call) *echo5.Context { return c.Echo5 }

var echoBinder echo.DefaultBinder

func echoBindAll(c echo.Context, to any) error { return c.Bind(to) }

func last(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// plain is a column of a handler of a route without a parameter.
func plain(name, router, filter string, read reader) column {
	return column{name: name, routers: []string{router}, pattern: "/p", read: read, filter: filter}
}

// formColumns are handlers that read what net/http calls a form: the query and the body together.
func formColumns[T any](filter string, decode decoding, object func(T) (string, error)) []column {
	return []column{
		plain("`FormValue`", "net/http", filter, func(c routers.Call) (string, error) { return decode(c.Request.FormValue("id")) }),
		plain("`ParseForm`, `Form`", "net/http", filter, func(c routers.Call) (string, error) {
			if err := c.Request.ParseForm(); err != nil {
				return "", err
			}
			return decode(c.Request.Form.Get("id"))
		}),
		plain("`Form`, gorilla/schema", "net/http", filter, func(c routers.Call) (string, error) {
			if err := parseForm(c.Request); err != nil {
				return "", err
			}
			return schemaOf(c.Request.Form, object)
		}),
		plain("Gin, `binding.Form`", "Gin", filter, ginBinds(binding.Form, object)),
		plain("Echo v4 `FormValue`", "Echo v4", filter, func(c routers.Call) (string, error) { return decode(c.Echo.FormValue("id")) }),
		plain("Echo v5 `FormValue`", "Echo v5", filter, func(c routers.Call) (string, error) { return decode(c.Echo5.FormValue("id")) }),
	}
}

func parseForm(r *http.Request) error {
	if err := r.ParseMultipartForm(1 << 20); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return err
	}
	return nil
}

// queryColumns are handlers that read the query, and refuse what they cannot decode into a T.
func queryColumns[T any](filter string, decode decoding, object func(T) (string, error)) []column {
	return append([]column{
		plain("`URL.Query().Get`", "net/http", filter, func(c routers.Call) (string, error) { return decode(c.Request.URL.Query().Get("id")) }),
		plain("the last in `URL.Query()`", "net/http", filter, func(c routers.Call) (string, error) { return decode(last(c.Request.URL.Query()["id"])) }),
		plain("`url.ParseQuery`", "net/http", filter, func(c routers.Call) (string, error) {
			values, err := url.ParseQuery(c.Request.URL.RawQuery)
			if err != nil {
				return "", err
			}
			return decode(values.Get("id"))
		}),
		plain("gorilla/schema", "net/http", filter, func(c routers.Call) (string, error) { return schemaOf(c.Request.URL.Query(), object) }),
		plain("Gin `Query`", "Gin", filter, func(c routers.Call) (string, error) { return decode(c.Gin.Query("id")) }),
		plain("Gin `ShouldBindQuery`", "Gin", filter, ginBinds(binding.Query, object)),
		plain("Echo v4 `QueryParam`", "Echo v4", filter, func(c routers.Call) (string, error) { return decode(c.Echo.QueryParam("id")) }),
		plain("Echo v4 `BindQueryParams`", "Echo v4", filter, echoBinds(of4, echoBinder.BindQueryParams, object)),
		plain("Echo v5 `QueryParam`", "Echo v5", filter, func(c routers.Call) (string, error) { return decode(c.Echo5.QueryParam("id")) }),
		plain("Echo v5 `BindQueryParams`", "Echo v5", filter, echoBinds(of5, echo5.BindQueryParams, object)),
	}, formColumns(filter, decode, object)...)
}

// getColumns are handlers that read the query if the method is GET.
func getColumns[T any](filter string, object func(T) (string, error)) []column {
	return []column{
		plain("Gin `ShouldBind`", "Gin", filter, ginBinds(nil, object)),
		plain("Echo v4 `Bind`", "Echo v4", filter, echoBinds(of4, echoBindAll, object)),
		plain("Echo v5 `Bind`", "Echo v5", filter, echoBinds(of5, (*echo5.Context).Bind, object)),
	}
}

// bodyColumns are handlers that read the form in the body.
func bodyColumns(filter string) []column {
	n := noError(number[int64])
	return append([]column{
		plain("`PostFormValue`", "net/http", filter, func(c routers.Call) (string, error) { return atoi(c.Request.PostFormValue("id")) }),
		plain("the last in `PostForm`", "net/http", filter, func(c routers.Call) (string, error) {
			if err := parseForm(c.Request); err != nil {
				return "", err
			}
			return atoi(last(c.Request.PostForm["id"]))
		}),
		plain("`PostForm`, gorilla/schema", "net/http", filter, func(c routers.Call) (string, error) {
			if err := parseForm(c.Request); err != nil {
				return "", err
			}
			return schemaOf(c.Request.PostForm, n)
		}),
		plain("Gin `PostForm`", "Gin", filter, func(c routers.Call) (string, error) { return atoi(c.Gin.PostForm("id")) }),
		plain("Gin `ShouldBind`", "Gin", filter, ginBinds(nil, n)),
		plain("Echo v4 `Bind`", "Echo v4", filter, echoBinds(of4, echoBindAll, n)),
		plain("Echo v5 `Bind`", "Echo v5", filter, echoBinds(of5, (*echo5.Context).Bind, n)),
		plain("Echo v5 generic `FormValue`", "Echo v5", filter, func(c routers.Call) (string, error) { return number(echo5.FormValue[int64](c.Echo5, "id")) }),
	}, formColumns(filter, atoi, n)...)
}

// A defaulted is bound to the query where it is given, and is the default where it is not.
type defaulted struct {
	Shop string `form:"id,default=main"`
}

func defaultColumns() []column {
	return []column{
		plain("net/http, `cmp.Or`", "net/http", "", func(c routers.Call) (string, error) {
			if shop := c.Request.URL.Query().Get("id"); shop != "" {
				return shop, nil
			}
			return "main", nil
		}),
		plain("gorilla/schema `default:main`", "net/http", "", func(c routers.Call) (string, error) {
			var to struct {
				Shop string `schema:"id,default:main"`
			}
			err := strict.Decode(&to, c.Request.URL.Query())
			return to.Shop, err
		}),
		plain("Gin `DefaultQuery`", "Gin", "", func(c routers.Call) (string, error) { return asText(c.Gin.DefaultQuery("id", "main")) }),
		plain("Gin `default=main`", "Gin", "", func(c routers.Call) (string, error) {
			var to defaulted
			if err := c.Gin.ShouldBindQuery(&to); err != nil {
				return "", err
			}
			return asText(to.Shop)
		}),
		plain("Echo v5 `QueryParamOr`", "Echo v5", "", func(c routers.Call) (string, error) {
			shop, err := echo5.QueryParamOr(c.Echo5, "id", "main")
			if err != nil {
				return "", err
			}
			return asText(shop)
		}),
	}
}

func defaultNumberColumns() []column {
	return []column{
		plain("gorilla/schema `default:1`", "net/http", "|int", func(c routers.Call) (string, error) {
			var to struct {
				Page int64 `schema:"id,default:1"`
			}
			if err := strict.Decode(&to, c.Request.URL.Query()); err != nil {
				return "", err
			}
			return number(to.Page, nil)
		}),
		plain("Gin `default=1`", "Gin", "|int", func(c routers.Call) (string, error) {
			var to struct {
				Page int64 `form:"id,default=1"`
			}
			if err := c.Gin.ShouldBindQuery(&to); err != nil {
				return "", err
			}
			return number(to.Page, nil)
		}),
		plain("Echo v5 `QueryParamOr`", "Echo v5", "|int", func(c routers.Call) (string, error) {
			page, err := echo5.QueryParamOr[int64](c.Echo5, "id", 1)
			return number(page, err)
		}),
	}
}

// zeroColumns are handlers that take the number 0 for what is missing, and work on it.
func zeroColumns() []column {
	zero := func(n int64) (string, error) { return strconv.FormatInt(n, 10), nil }
	return []column{
		plain("gorilla/schema", "net/http", "|int", func(c routers.Call) (string, error) { return schemaOf(c.Request.URL.Query(), zero) }),
		plain("Gin `ShouldBindQuery`", "Gin", "|int", ginBinds(binding.Query, zero)),
		plain("Echo v4 `Bind`", "Echo v4", "|int", echoBinds(of4, echoBindAll, zero)),
		plain("Echo v5 `Bind`", "Echo v5", "|int", echoBinds(of5, (*echo5.Context).Bind, zero)),
	}
}

func queryTables() []table {
	n := noError(number[int64])
	return []table{
		{"Query: a number", "{query.id|}", append(queryColumns("|int", atoi, n), getColumns("|int", n)...), queryNumbers},
		{"Query: a text", "{query.id|}", append(queryColumns("", asText, asText), getColumns("", asText)...), queryTexts},
		{"Query: a number, and a body", "{query.id|}", queryColumns("|int", atoi, n), queryAndBody()},
		{"Query: a text with a default", "{query.id?=main|}", defaultColumns(), inQuery("id=main", "", "id=", "id", "id=&id=main", "id=main&id=", "id=other", "ID=other", "id=MAIN", "id=%6Dain", "x")},
		{"Query: a number with a default", "{query.id?=1|}", defaultNumberColumns(), inQuery("id=1", "", "id=", "id", "id=0", "id=01", "id=+1", "id=%2B1", "id=2", "id=1.0", "id=x", "ID=2", "id=1&id=2")},
		{"Query: a number that may be missing", "k{query.id?|}", zeroColumns(), inQuery("id=0", "", "id=", "id", "id=00", "id=-0", "id=%2B0", "id=2", "id=0.0", "id=x", "id=null")},
		{"Form: a number", "{form.id|}", bodyColumns("|int"), formNumbers},
	}
}
