// Package secret can only be imported by package partner.
package secret

type Token struct{ Text string }
