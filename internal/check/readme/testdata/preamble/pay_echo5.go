package preamble

import "github.com/labstack/echo/v5"

var e *echo.Echo

func pay(*echo.Context) error { return nil }
