package urls

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/binding"
	"github.com/labstack/echo/v4"
	echo5 "github.com/labstack/echo/v5"
)

// An order is what handlers bind requests to. All of its tags have one name, so
// that a binder finds it wherever it looks.
type order struct {
	ID string `bson:"id" codec:"id" form:"id" header:"id" json:"id" query:"id" toml:"id" xml:"id" yaml:"id"`
}

// An inPath is an order that takes its name from the path too.
type inPath struct {
	ID string `form:"id" json:"id" param:"id" query:"id" uri:"id" xml:"id"`
}

// An onlyPath takes it from nowhere else, as the documents of the doors say.
type onlyPath struct {
	ID string `json:"-" param:"id" xml:"-"`
}

// A binder is a way in which a handler reads the name id.
type binder struct {
	name   string
	source string // where the key is made from, for handlers that read so
	// template makes the key. Empty means that it is made from the source alone,
	// where the name may be missing.
	template string
	// methods are those with which it reads that source. Empty means all.
	methods []string
	// One of these. An error means that the handler refuses the request.
	http func(*http.Request) (string, error)
	gin  func(*gin.Context) (string, error)
	echo func(echo.Context) (string, error)
	// echo5 is for Echo v5.
	echo5 func(*echo5.Context) (string, error)
}

// jsonOf decodes the first value of a body.
func jsonOf(r *http.Request) (string, error) {
	var o order
	err := json.NewDecoder(r.Body).Decode(&o)
	return o.ID, err
}

func wholeJSONOf(r *http.Request) (string, error) {
	var fields map[string]any
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &fields)
	}
	return text(fields["id"]), err
}

// firstJSONOf takes the first of several fields of one name, as gjson, fastjson and
// jsonparser do.
func firstJSONOf(r *http.Request) (string, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil || !json.Valid(body) {
		return "", err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if token, err := d.Token(); err != nil || token != json.Delim('{') {
		return "", err
	}
	for d.More() {
		var value any
		name, err := d.Token()
		if err == nil {
			err = d.Decode(&value)
		}
		if err != nil || name == "id" {
			return text(value), err
		}
	}
	return "", nil
}

func lastOf(values []string) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	return values[len(values)-1], nil
}

// text is what a handler makes of a value that it knows for a text.
func text(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

func cookieOf(cookie *http.Cookie, err error) (string, error) {
	if errors.Is(err, http.ErrNoCookie) {
		return "", nil
	}
	return cookie.Value, err
}

// ginBinds returns handlers that bind one after another into one order.
func ginBinds(all ...func(*gin.Context, any) error) func(*gin.Context) (string, error) {
	return func(c *gin.Context) (string, error) {
		var o inPath
		for _, bind := range all {
			if err := bind(c, &o); err != nil {
				return "", err
			}
		}
		return o.ID, nil
	}
}

// ginBinding returns a handler that binds with one of Gin's bindings.
func ginBinding(b binding.Binding) func(*gin.Context) (string, error) {
	return func(c *gin.Context) (string, error) {
		var o order
		err := c.ShouldBindWith(&o, b)
		return o.ID, err
	}
}

// echoBinds returns a handler that binds, in the version of Echo whose context is C.
func echoBinds[T, C any](id func(*T) string, bind func(C, any) error) func(C) (string, error) {
	return func(c C) (string, error) {
		var o T
		err := bind(c, &o)
		return id(&o), err
	}
}

func idOf(o *order) string             { return o.ID }
func idOfPath(o *inPath) string        { return o.ID }
func idOfOnly(o *onlyPath) string      { return o.ID }
func idOfMap(m *map[string]any) string { return text((*m)["id"]) }

func echoBind(c echo.Context, to any) error { return c.Bind(to) }

var (
	readsTheQuery = []string{http.MethodGet, http.MethodHead, http.MethodDelete} // in Echo's Bind
	echoBinder    echo.DefaultBinder
)

// binders are the ways in which handlers read a request, by the frameworks' own
// means. Those that read one format only which is not JSON are not there: their
// handlers have no JSON body that a key could be made from.
var binders = []binder{
	{name: "json.Decoder", source: "body", http: jsonOf},
	{name: "json.Unmarshal to a map", source: "body", http: wholeJSONOf},
	{name: "the first field of a name", source: "body", http: firstJSONOf},
	{name: "gin ShouldBind", source: "body", gin: ginBinds((*gin.Context).ShouldBind)},
	{name: "gin ShouldBindJSON", source: "body", gin: ginBinding(binding.JSON)},
	{name: "gin ShouldBindBodyWith JSON", source: "body", gin: ginBinds((*gin.Context).ShouldBindBodyWithJSON)},
	{name: "gin ShouldBindUri, ShouldBind", source: "body", gin: ginBinds((*gin.Context).ShouldBindUri, (*gin.Context).ShouldBind)},
	{name: "gin ShouldBindQuery, ShouldBindJSON", source: "body", gin: ginBinds((*gin.Context).ShouldBindQuery, (*gin.Context).ShouldBindJSON)},
	{name: "gin ShouldBindJSON, ShouldBindQuery", source: "body", gin: ginBinds((*gin.Context).ShouldBindJSON, (*gin.Context).ShouldBindQuery)},
	{name: "gin json.Decoder", source: "body", gin: func(c *gin.Context) (string, error) { return jsonOf(c.Request) }},
	{name: "echo Bind", source: "body", echo: echoBinds(idOfPath, echoBind)},
	{name: "echo Bind to a map", source: "body", echo: echoBinds(idOfMap, echoBind)},
	{name: "echo BindBody", source: "body", echo: echoBinds(idOf, echoBinder.BindBody)},
	{name: "echo json.Decoder", source: "body", echo: func(c echo.Context) (string, error) { return jsonOf(c.Request()) }},
	{name: "echo v5 Bind", source: "body", echo5: echoBinds(idOfPath, (*echo5.Context).Bind)},
	{name: "echo v5 Bind to a map", source: "body", echo5: echoBinds(idOfMap, (*echo5.Context).Bind)},
	{name: "echo v5 BindBody", source: "body", echo5: echoBinds(idOf, echo5.BindBody)},

	{name: "URL.Query", source: "query", http: func(r *http.Request) (string, error) { return r.URL.Query().Get("id"), nil }},
	{name: "the last of several", source: "query", http: func(r *http.Request) (string, error) { return lastOf(r.URL.Query()["id"]) }}, // gorilla/schema
	{name: "FormValue", source: "query", http: func(r *http.Request) (string, error) { return r.FormValue("id"), nil }},
	{name: "ParseForm", source: "query", http: func(r *http.Request) (string, error) { err := r.ParseForm(); return r.Form.Get("id"), err }},
	{name: "ParseMultipartForm", source: "query", http: func(r *http.Request) (string, error) { _ = r.ParseMultipartForm(1 << 20); return r.Form.Get("id"), nil }},
	{name: "gin Query", source: "query", gin: func(c *gin.Context) (string, error) { return c.Query("id"), nil }},
	{name: "gin ShouldBindQuery", source: "query", gin: ginBinding(binding.Query)},
	{name: "gin Form", source: "query", gin: ginBinding(binding.Form)},
	{name: "gin ShouldBind", source: "query", methods: []string{http.MethodGet}, gin: ginBinds((*gin.Context).ShouldBind)},
	{name: "echo QueryParam", source: "query", echo: func(c echo.Context) (string, error) { return c.QueryParam("id"), nil }},
	{name: "echo FormValue", source: "query", echo: func(c echo.Context) (string, error) { return c.FormValue("id"), nil }},
	{name: "echo BindQueryParams", source: "query", echo: echoBinds(idOf, echoBinder.BindQueryParams)},
	{name: "echo QueryParamsBinder", source: "query", echo: func(c echo.Context) (id string, err error) {
		err = echo.QueryParamsBinder(c).String("id", &id).BindError()
		return id, err
	}},
	{name: "echo FormFieldBinder", source: "query", echo: func(c echo.Context) (id string, err error) {
		err = echo.FormFieldBinder(c).String("id", &id).BindError()
		return id, err
	}},
	{name: "echo Bind", source: "query", methods: readsTheQuery, echo: echoBinds(idOf, echoBind)},
	{name: "echo v5 QueryParam", source: "query", echo5: func(c *echo5.Context) (string, error) { return c.QueryParam("id"), nil }},
	{name: "echo v5 generic QueryParam", source: "query", echo5: func(c *echo5.Context) (string, error) { return echo5.QueryParamOr(c, "id", "") }},
	{name: "echo v5 FormValue", source: "query", echo5: func(c *echo5.Context) (string, error) { return c.FormValue("id"), nil }},
	{name: "echo v5 FormValues", source: "query", echo5: func(c *echo5.Context) (string, error) { all, err := c.FormValues(); return all.Get("id"), err }},
	{name: "echo v5 BindQueryParams", source: "query", echo5: echoBinds(idOf, echo5.BindQueryParams)},
	{name: "echo v5 Bind", source: "query", methods: readsTheQuery, echo5: echoBinds(idOf, (*echo5.Context).Bind)},

	{name: "PostFormValue", source: "form", http: func(r *http.Request) (string, error) { return r.PostFormValue("id"), nil }},
	{name: "FormValue", source: "form", http: func(r *http.Request) (string, error) { return r.FormValue("id"), nil }},
	{name: "ParseForm", source: "form", methods: []string{http.MethodPost}, http: func(r *http.Request) (string, error) {
		if err := r.ParseMultipartForm(1 << 20); err != nil && !errors.Is(err, http.ErrNotMultipart) {
			return "", err
		}
		return r.PostForm.Get("id"), nil
	}},
	{name: "gin PostForm", source: "form", gin: func(c *gin.Context) (string, error) { return c.PostForm("id"), nil }},
	{name: "gin ShouldBind", source: "form", gin: ginBinds((*gin.Context).ShouldBind)},
	{name: "gin ShouldBindUri, ShouldBind", source: "form", gin: ginBinds((*gin.Context).ShouldBindUri, (*gin.Context).ShouldBind)},
	{name: "gin Form", source: "form", gin: ginBinding(binding.Form)},
	{name: "gin FormMultipart", source: "form", gin: ginBinding(binding.FormMultipart)},
	{name: "echo FormValue", source: "form", echo: func(c echo.Context) (string, error) { return c.FormValue("id"), nil }},
	{name: "echo Bind", source: "form", echo: echoBinds(idOfPath, echoBind)},
	{name: "echo BindBody", source: "form", echo: echoBinds(idOf, echoBinder.BindBody)},
	{name: "echo FormFieldBinder", source: "form", echo: func(c echo.Context) (id string, err error) {
		err = echo.FormFieldBinder(c).String("id", &id).BindError()
		return id, err
	}},
	{name: "echo v5 FormValue", source: "form", echo5: func(c *echo5.Context) (string, error) { return c.FormValue("id"), nil }},
	{name: "echo v5 generic FormValue", source: "form", echo5: func(c *echo5.Context) (string, error) { return echo5.FormValueOr(c, "id", "") }},
	{name: "echo v5 Bind", source: "form", echo5: echoBinds(idOfPath, (*echo5.Context).Bind)},
	{name: "echo v5 BindBody", source: "form", echo5: echoBinds(idOf, echo5.BindBody)},

	{name: "Cookie", source: "cookie", http: func(r *http.Request) (string, error) { return cookieOf(r.Cookie("id")) }},
	{name: "Cookies", source: "cookie", http: func(r *http.Request) (string, error) {
		id := ""
		for _, cookie := range r.Cookies() {
			if cookie.Name == "id" {
				id = cookie.Value // the last
			}
		}
		return id, nil
	}},
	{name: "gin Cookie", source: "cookie", gin: func(c *gin.Context) (string, error) {
		value, err := c.Cookie("id")
		if errors.Is(err, http.ErrNoCookie) {
			err = nil
		}
		return value, err
	}},
	{name: "echo Cookie", source: "cookie", echo: func(c echo.Context) (string, error) { return cookieOf(c.Cookie("id")) }},
	{name: "echo v5 Cookie", source: "cookie", echo5: func(c *echo5.Context) (string, error) { return cookieOf(c.Cookie("id")) }},

	{name: "Header.Get", source: "header", http: func(r *http.Request) (string, error) { return r.Header.Get("Id"), nil }},
	{name: "the last of several", source: "header", http: func(r *http.Request) (string, error) { return lastOf(r.Header["Id"]) }},
	{name: "gin GetHeader", source: "header", gin: func(c *gin.Context) (string, error) { return c.GetHeader("id"), nil }},
	{name: "gin ShouldBindHeader", source: "header", gin: ginBinding(binding.Header)},
	{name: "echo Header.Get", source: "header", echo: func(c echo.Context) (string, error) { return c.Request().Header.Get("Id"), nil }},
	{name: "echo BindHeaders", source: "header", echo: echoBinds(idOf, echoBinder.BindHeaders)},
	{name: "echo v5 BindHeaders", source: "header", echo5: echoBinds(idOf, echo5.BindHeaders)},

	{name: "PathValue", source: "param", http: func(r *http.Request) (string, error) { return r.PathValue("id"), nil }},
	{name: "gin Param", source: "param", gin: func(c *gin.Context) (string, error) { return c.Param("id"), nil }},
	{name: "gin ShouldBindUri", source: "param", gin: ginBinds((*gin.Context).ShouldBindUri)},
	{name: "echo Param", source: "param", echo: func(c echo.Context) (string, error) { return c.Param("id"), nil }},
	{name: "echo BindPathParams", source: "param", echo: echoBinds(idOfPath, echoBinder.BindPathParams)},
	{name: "echo Bind", source: "param", echo: echoBinds(idOfOnly, echoBind)},
	{name: "echo v5 Param", source: "param", echo5: func(c *echo5.Context) (string, error) { return c.Param("id"), nil }},
	{name: "echo v5 BindPathValues", source: "param", echo5: echoBinds(idOfPath, echo5.BindPathValues)},
	{name: "echo v5 Bind", source: "param", echo5: echoBinds(idOfOnly, (*echo5.Context).Bind)},

	{name: "gin MustGet", source: "value", gin: func(c *gin.Context) (string, error) { return text(c.MustGet("id")), nil }},
	{name: "echo Get", source: "value", echo: func(c echo.Context) (string, error) { return text(c.Get("id")), nil }},
	{name: "echo v5 Get", source: "value", echo5: func(c *echo5.Context) (string, error) { return text(c.Get("id")), nil }},
	{name: "echo v5 ContextGet", source: "value", echo5: func(c *echo5.Context) (string, error) { return echo5.ContextGet[string](c, "id") }},
}
