package source

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// maxRedirects is how many redirections one fetch follows.
const maxRedirects = 10

// passingError is a failure that may be gone when the fetch is tried again.
type passingError struct{ err error }

func (e *passingError) Error() string { return e.err.Error() }
func (e *passingError) Unwrap() error { return e.err }

func newTransport(timeout time.Duration, inner bool) http.RoundTripper {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer(min(timeout, 10*time.Second), inner),
		TLSHandshakeTimeout:   min(timeout, 10*time.Second),
		ResponseHeaderTimeout: timeout,
		IdleConnTimeout:       10 * time.Second,
		MaxIdleConnsPerHost:   1,
		ForceAttemptHTTP2:     true,
	}
}

func newClient(transport http.RoundTripper, timeout time.Duration, inner bool) *http.Client {
	return &http.Client{
		Transport: transport,
		Timeout:   timeout,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) >= maxRedirects {
				return fmt.Errorf("the server redirected more than %d times", maxRedirects)
			}
			if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
				return fmt.Errorf("the server redirected to %s, and only http and https are followed", redact(req.URL.String()))
			}
			if !inner {
				return checkHost(req.URL)
			}
			return nil
		},
	}
}

// checkURL refuses what cannot be the address of a script.
func checkURL(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("reading the script's address: %w", hideURL(err))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("fetching %s: the address must begin with http:// or https://", redact(address))
	case u.Host == "":
		return fmt.Errorf("fetching %s: the address names no server", redact(address))
	case FileName(address) == "":
		return fmt.Errorf("fetching %s: the address names no file; give the address of the script itself, such as %s/train.py", redact(address), strings.TrimSuffix(redact(address), "/"))
	}
	return nil
}

// FileName is the name that the script at a URL has in its snapshot: the last
// part of the URL's path. It is empty where there is none.
func FileName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	name := path.Base(u.Path)
	if name == "." || name == "/" || name == ".." || strings.HasSuffix(u.Path, "/") || strings.ContainsAny(name, "/\\\x00") || len(name) > 255 {
		return ""
	}
	return name
}

// fetch gets one script and stores it for a scope.
func (f *Fetcher) fetch(ctx context.Context, scope, address string) (string, error) {
	fail := func(err error) error { return fmt.Errorf("fetching %s: %w", redact(address), err) }
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", fail(hideURL(err))
	}
	if !f.opts.Inner {
		if err := checkHost(req.URL); err != nil {
			return "", fail(err)
		}
	}
	req.Header.Set("User-Agent", "muster")
	resp, err := f.client.Do(req)
	if err != nil {
		return "", fail(sentence(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", fail(statusError(resp))
	}
	if resp.ContentLength > f.opts.MaxBytes {
		return "", fail(fmt.Errorf("the answer is %s, and the limit for a script is %s; put data on a volume and read it from there", FormatBytes(resp.ContentLength), FormatBytes(f.opts.MaxBytes)))
	}
	digest, err := f.keep(ctx, scope, FileName(address), resp)
	if err != nil {
		return "", fail(err)
	}
	return digest, nil
}

// keep receives a script and stores it.
func (f *Fetcher) keep(ctx context.Context, scope, name string, resp *http.Response) (string, error) {
	var temp string
	if shared := f.opts.Shared; shared != nil {
		temp = shared.Dir
	} else {
		unlock, err := f.opts.Store.share()
		if err != nil {
			return "", err
		}
		defer unlock()
		temp = filepath.Join(f.opts.Store.dir, tempDir)
	}
	dir, err := os.MkdirTemp(temp, "fetch-*")
	if err != nil {
		return "", full(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, name)
	if err := f.receive(resp, file); err != nil {
		return "", err
	}
	if f.opts.Shared != nil {
		return f.opts.Shared.Keep(ctx, scope, file)
	}
	result, err := f.opts.Store.snapshotFile(ctx, file, f.opts.MaxBytes)
	return result.Digest, err
}

// receive writes the answer to a file, and stops where it grows too large.
func (f *Fetcher) receive(resp *http.Response, file string) error {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return full(err)
	}
	if err := out.Chmod(0o644); err != nil { // whatever the umask: equal scripts have equal digests
		return errors.Join(full(err), out.Close())
	}
	written, err := io.Copy(out, io.LimitReader(resp.Body, f.opts.MaxBytes+1))
	closing := out.Close()
	var pathError *os.PathError
	switch {
	case errors.As(err, &pathError):
		return full(err)
	case err != nil:
		return sentence(err)
	case closing != nil:
		return full(closing)
	case written > f.opts.MaxBytes:
		return fmt.Errorf("the answer is larger than %s, the limit for a script; put data on a volume and read it from there", FormatBytes(f.opts.MaxBytes))
	case written == 0:
		return errors.New("the answer is empty")
	}
	return nil
}

// statusError puts a status code into words.
func statusError(resp *http.Response) error {
	err := fmt.Errorf("the server answered %s", strings.TrimSpace(resp.Status))
	switch code := resp.StatusCode; {
	case code == http.StatusNotFound, code == http.StatusGone:
		return fmt.Errorf("%w; check the address in a browser", err)
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%w; it wants a login that Muster does not have: use an address that anyone may read, or submit the script as a file", err)
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		return &passingError{err}
	}
	return err
}

// sentence puts a failure of the network into words.
func sentence(err error) error {
	err = hideURL(err)
	var dns *net.DNSError
	var unknown x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var timeout net.Error
	var inner *innerError
	switch {
	case errors.As(err, &inner):
		return inner
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("there is no server called %s; check the address: %w", dns.Name, err)
	case errors.As(err, &dns):
		return &passingError{fmt.Errorf("looking up %s did not work: %w", dns.Name, err)}
	case errors.As(err, &record):
		return fmt.Errorf("the server does not speak TLS on this port; is it an http:// address? %w", err)
	case errors.As(err, &unknown), errors.As(err, &hostname), errors.As(err, &invalid):
		return fmt.Errorf("the server's certificate is not trusted: %w", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return &passingError{fmt.Errorf("the server refused the connection; is it running, and is the port right? %w", err)}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &passingError{fmt.Errorf("the server did not answer in time: %w", err)}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return &passingError{fmt.Errorf("the connection broke off: %w", err)}
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return &passingError{err}
	}
	return err
}

// hideURL takes the URL, which may hold a password, out of an error.
func hideURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// redact leaves out the password and the query of a URL, which may be secrets.
func redact(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the script"
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}
