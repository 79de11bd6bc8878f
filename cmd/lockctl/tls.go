package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// secrets say how a server with TLS is known, and who lockctl is to it: what no URL has a place for.
type secrets struct {
	authority string // a file with the certificate of the authority that has signed the server's; empty: one of the system's
	cert, key string // files with the certificate that the server wants to see, and with its key; empty: it wants none
	name      string // the name that the server's certificate has; empty: the host of the URL
}

// of returns the configuration of a URL, which is nil without TLS, with them in it.
func (s *secrets) of(url *tls.Config) (*tls.Config, error) {
	if *s == (secrets{}) {
		return url, nil
	}
	if url == nil {
		return nil, errors.New("--tls-ca, --tls-cert, --tls-key and --tls-name are for a server with TLS, whose URL begins with rediss://")
	}
	config := url.Clone()
	if s.name != "" {
		config.ServerName = s.name
	}
	if s.authority != "" {
		text, err := os.ReadFile(s.authority)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls-ca: there is no certificate in %s: it begins with -----BEGIN CERTIFICATE-----", s.authority)
		}
	}
	if s.cert == "" && s.key == "" {
		return config, nil
	}
	if s.cert == "" || s.key == "" {
		return nil, errors.New("--tls-cert and --tls-key go together: give both")
	}
	own, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	config.Certificates = []tls.Certificate{own}
	return config, nil
}
