package preamble

import "github.com/gin-gonic/gin"

func pay(*gin.Context) {}
