package web

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookEvery is the time after which a handshake looks whether the files of a certificate have changed.
const lookEvery = time.Second

// Certificate is a pair of files that is read again when they change.
type Certificate struct {
	certificate, key string
	log              *slog.Logger
	now              func() time.Time

	mu     sync.Mutex
	pair   *tls.Certificate
	looked time.Time
	seen   [2]stamp
}

// stamp is a version of a file.
type stamp struct {
	changed time.Time
	size    int64
}

// OpenCertificate reads a certificate and its key, as PEM.
func OpenCertificate(certificate, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certificate: certificate, key: key, log: log, now: time.Now}
	seen, err := c.stamps()
	if err != nil {
		return nil, err
	}
	return c, c.load(seen)
}

func (c *Certificate) stamps() (seen [2]stamp, err error) {
	for i, name := range []string{c.certificate, c.key} {
		info, err := os.Stat(name)
		if err != nil {
			return seen, fmt.Errorf("reading the certificate of the console: %w", err)
		}
		seen[i] = stamp{info.ModTime(), info.Size()}
	}
	return seen, nil
}

// load reads the files. The caller holds mu, or nobody else has c yet.
func (c *Certificate) load(seen [2]stamp) error {
	pair, err := tls.LoadX509KeyPair(c.certificate, c.key)
	if err != nil {
		return fmt.Errorf("reading the certificate %s and its key %s: %w", c.certificate, c.key, err)
	}
	c.pair, c.seen = &pair, seen
	return nil
}

// current returns the certificate of the files. While they cannot be read, such as between the writes of
// the two, the last one counts.
func (c *Certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.Sub(c.looked) < lookEvery {
		return c.pair
	}
	c.looked = now
	seen, err := c.stamps()
	if err == nil && seen != c.seen {
		err = c.load(seen)
	}
	if err != nil {
		c.log.Warn("the console goes on with its former certificate", "error", err)
	}
	return c.pair
}

func (c *Certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return c.current(), nil
	}}
}
