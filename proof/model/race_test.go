//go:build race

package model

const racing = true
