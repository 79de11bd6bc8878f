package spellings

import (
	"github.com/gin-gonic/gin/binding"
	echo5 "github.com/labstack/echo/v5"

	"github.com/lockmw/kit/proof/routers"
)

var headerLines = withHeaders(
	[]string{"Id: 42"}, []string{"Id: 7"}, []string{"id: 42"}, []string{"ID: 42"}, []string{"Id:42"}, []string{"Id:   42   "}, []string{"Id: 42", "Id: 42"}, []string{"Id: 42", "Id: 7"},
	[]string{"Id: 7", "Id: 42"}, []string{"Id: 42", "ID: 7"}, []string{"Id: 42", "Id:"}, []string{"Id:"}, []string{"Id: 42, 7"}, []string{"Id: 42,42"}, []string{"Id: \"42\""}, []string{"Id: 042"},
	[]string{"Id: +42"}, []string{"Id: -0"}, []string{"Id: 0"}, []string{"Id: 42.0"}, []string{"Id: 0x2a"}, []string{"Id: %34%32"}, []string{"Id: 4\t2"}, []string{"Id: 42\t"}, []string{"Id : 42"},
	[]string{"Id: 42\r\n 7"}, []string{"I_d: 42"}, []string{"Id: 18446744073709551658"}, []string{"\u0130d: 42"}, []string{"X: 1"},
)

var cookieLines = withHeaders(
	[]string{"Cookie: id=42"}, []string{"Cookie: id=7"}, []string{`Cookie: id="42"`}, []string{"Cookie: id=42; id=42"}, []string{"Cookie: id=42; id=7"}, []string{"Cookie: id=7; id=42"},
	[]string{"Cookie: id=42", "Cookie: id=7"}, []string{"Cookie: x=1; id=42"}, []string{"Cookie: id=42;"}, []string{"Cookie:  id=42 "}, []string{"Cookie: id =42"}, []string{"Cookie: id= 42"},
	[]string{"Cookie: ID=42"}, []string{"Cookie: id=42; ID=7"}, []string{"Cookie: %69d=42"}, []string{"Cookie: id=%34%32"}, []string{"Cookie: id=%2534%2532"}, []string{"Cookie: id=42, id=7"},
	[]string{"Cookie: id=042"}, []string{"Cookie: id=+42"}, []string{"Cookie: id=%2B42"}, []string{"Cookie: id=42+"}, []string{"Cookie: id=42%20"}, []string{"Cookie: id=42%zz"}, []string{"Cookie: id="},
	[]string{"Cookie: id"}, []string{`Cookie: id="42`}, []string{`Cookie: id=4"2`}, []string{"Cookie: id=\xff"}, []string{"Cookie: $Version=1; id=42"}, []string{"Cookie: id=42; $Path=/"}, []string{"X: 1"},
)

func headerTables() []table {
	n := noError(number[int64])
	return []table{
		{"Header: a number", "{header.Id|}", []column{
			plain("`Header.Get`", "net/http", "|int", func(c routers.Call) (string, error) { return atoi(c.Request.Header.Get("Id")) }),
			plain("the last of `Header.Values`", "net/http", "|int", func(c routers.Call) (string, error) { return atoi(last(c.Request.Header.Values("Id"))) }),
			plain("Gin `GetHeader`", "Gin", "|int", func(c routers.Call) (string, error) { return atoi(c.Gin.GetHeader("id")) }),
			plain("Gin `ShouldBindHeader`", "Gin", "|int", ginBinds(binding.Header, n)),
			plain("Echo v4 `BindHeaders`", "Echo v4", "|int", echoBinds(of4, echoBinder.BindHeaders, n)),
			plain("Echo v5 `BindHeaders`", "Echo v5", "|int", echoBinds(of5, echo5.BindHeaders, n)),
		}, headerLines},
		{"Cookie: a number", "{cookie.id|}", []column{
			plain("`Cookie`", "net/http", "|int", func(c routers.Call) (string, error) {
				cookie, err := c.Request.Cookie("id")
				if err != nil {
					return "", err
				}
				return atoi(cookie.Value)
			}),
			plain("the last of `Cookies`", "net/http", "|int", func(c routers.Call) (string, error) {
				value := ""
				for _, cookie := range c.Request.Cookies() {
					if cookie.Name == "id" {
						value = cookie.Value
					}
				}
				return atoi(value)
			}),
			plain("Gin `Cookie`", "Gin", "|int", func(c routers.Call) (string, error) {
				value, err := c.Gin.Cookie("id")
				if err != nil {
					return "", err
				}
				return atoi(value)
			}),
			plain("Echo v4 `Cookie`", "Echo v4", "|int", func(c routers.Call) (string, error) {
				cookie, err := c.Echo.Cookie("id")
				if err != nil {
					return "", err
				}
				return atoi(cookie.Value)
			}),
			plain("Echo v5 `Cookie`", "Echo v5", "|int", func(c routers.Call) (string, error) {
				cookie, err := c.Echo5.Cookie("id")
				if err != nil {
					return "", err
				}
				return atoi(cookie.Value)
			}),
		}, cookieLines},
	}
}
