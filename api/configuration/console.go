package configuration

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"strings"
)

// Console is the HTTP server for people: pages for browsers.
type Console struct {
	// Port is its port. Default: 649 if Muster runs as root, since no other user can listen
	// there, else 6490.
	Port int `json:"port,omitempty"`
	// Disabled turns it off. Default: false.
	Disabled bool `json:"disabled,omitempty"`
	// Address is the address at which it listens, such as 0.0.0.0. Default: the loopback
	// addresses. Another address needs a certificate, or the addresses of reverse proxies.
	Address string `json:"address,omitempty"`
	// URL is the address for browsers on other machines, with a path prefix if there is one:
	// https://gpu.example.org/muster.
	URL string `json:"url,omitempty"`
	// Proxies are the addresses or networks of reverse proxies, whose X-Forwarded-Host and
	// X-Forwarded-Proto count.
	Proxies []string `json:"proxies,omitempty"`
	// Certificate and Key are files in PEM, for TLS without a reverse proxy. They are read again
	// when they change.
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	// OIDC is the provider at which people sign in to the console of a cluster. Only the manager has it:
	// on one machine `muster console` signs in.
	OIDC *OIDC `json:"oidc,omitempty"`
}

// ProxyPrefixes returns the networks of the reverse proxies.
func (c Console) ProxyPrefixes() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range c.Proxies {
		if address, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("proxies: %q: give an address or a network, such as 10.0.0.0/8", text)
		}
		all = append(all, network.Masked())
	}
	return all, nil
}

// validate checks the console of one machine.
func (c Console) validate() error {
	if c.OIDC != nil {
		return errors.New("oidc is for the manager of a cluster: on one machine `muster console` signs in, so leave it out")
	}
	return c.check()
}

// check checks what all consoles have.
func (c Console) check() error {
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("port %d: allowed are 1 to 65535, and 0 for 649 as root, else 6490", c.Port)
	}
	if _, err := c.ProxyPrefixes(); err != nil {
		return err
	}
	if (c.Certificate == "") != (c.Key == "") {
		return errors.New("a certificate needs its key: give both, or none")
	}
	for _, file := range []string{c.Certificate, c.Key} {
		if file != "" && !filepath.IsAbs(file) {
			return fmt.Errorf("certificate, key: %q: give an absolute path", file)
		}
	}
	if err := c.validateURL(); err != nil {
		return err
	}
	switch address, err := netip.ParseAddr(c.Address); {
	case c.Address == "":
	case err != nil:
		return fmt.Errorf("address %q: give an IP address, such as 0.0.0.0", c.Address)
	case !address.IsLoopback() && c.Certificate == "" && len(c.Proxies) == 0:
		return fmt.Errorf("address %s: other machines reach it, so give a certificate and its key, or the proxies", c.Address)
	}
	return nil
}

// validateURL checks what browsers need: https, and a path without an end slash.
func (c Console) validateURL() error {
	if c.URL == "" {
		if c.Certificate != "" || len(c.Proxies) > 0 {
			return errors.New("a certificate and proxies need url, the address for browsers, such as https://gpu.example.org/muster")
		}
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Port() == "443" ||
		strings.ToLower(u.Host) != u.Host || u.Path != "" && path.Clean(u.Path) != u.Path || u.Path == "/" || strings.ContainsAny(u.Path, "{}% ") {
		return fmt.Errorf("url %q: give https, a host in lower case, and perhaps a port other than 443 and a path without an end slash, such as https://gpu.example.org/muster", c.URL)
	}
	if c.Certificate == "" && len(c.Proxies) == 0 {
		return fmt.Errorf("url %s: it needs a certificate and its key, or the proxies that speak TLS", c.URL)
	}
	return nil
}
