package preamble

import "net/http"

func pay(http.ResponseWriter, *http.Request) {}
