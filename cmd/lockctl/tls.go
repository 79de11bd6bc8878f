package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// tlsFlags say how a server with TLS is known, and who lockctl is to it: what no URL has a place for.
type tlsFlags struct {
	authority string // a file with the certificate of the authority that has signed the server's; empty: one of the system's
	cert, key string // files with the certificate that the server wants to see, and with its key; empty: it wants none
	name      string // the name that the server's certificate has; empty: as the URL says
}

// of returns the configuration of a URL, which is nil without TLS, with what they say in it.
func (s *tlsFlags) of(url *tls.Config) (*tls.Config, error) {
	if *s == (tlsFlags{}) {
		return url, nil
	}
	if url == nil {
		return nil, errors.New("--tls-ca, --tls-cert, --tls-key and --tls-name are for a server with TLS, whose URL begins with rediss://")
	}
	if url.InsecureSkipVerify && (s.authority != "" || s.name != "") {
		return nil, errors.New("with skip_verify=true in the URL, nobody looks at the server's certificate: leave out that, or --tls-ca and --tls-name")
	}
	config := url.Clone()
	if s.name != "" {
		config.ServerName = s.name
	}
	if s.authority != "" {
		text, err := contents("--tls-ca", s.authority)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls-ca: %s has no certificate in PEM", s.authority)
		}
	}
	if s.cert == "" && s.key == "" {
		return config, nil
	}
	if s.cert == "" || s.key == "" {
		return nil, errors.New("--tls-cert and --tls-key go together: give both")
	}
	own, err := s.own()
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{own}
	return config, nil
}

// own returns the certificate that lockctl shows.
func (s *tlsFlags) own() (tls.Certificate, error) {
	cert, err := contents("--tls-cert", s.cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := contents("--tls-key", s.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	if encrypted(key) {
		return tls.Certificate{}, fmt.Errorf("--tls-key: the key in %s is encrypted, and lockctl asks for no password: give a file with the plain key", s.key)
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", s.cert, s.key, err)
	}
	return own, nil
}

// encrypted reports whether the first key in PEM is one that wants a password.
func encrypted(text []byte) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED")
		}
	}
	return false
}

// contents returns what is in the file of a flag. The error has nothing of a key whose text was given in place of a file's name.
func contents(flag, file string) ([]byte, error) {
	if strings.Contains(file, "-----BEGIN") || strings.Contains(file, "\n") {
		return nil, fmt.Errorf("%s wants the name of a file, not its text", flag)
	}
	text, err := os.ReadFile(file) //nolint:gosec // who runs lockctl names the file
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return text, nil
}
