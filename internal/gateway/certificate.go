package gateway

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/versity/versitygw/s3api/utils"
)

// Certificate is what a gateway shows to its clients. It may be replaced while the
// gateway serves.
type Certificate struct{ shown utils.CertStorage }

// Use shows a certificate from now on: the chain and its key, PEM. They are in files
// for a moment, of a folder that nobody else may read.
func (c *Certificate) Use(chain, key []byte) error {
	dir, err := os.MkdirTemp("", "muster-gateway-")
	if err != nil {
		return fmt.Errorf("taking up the gateway's certificate: %w", err)
	}
	chainFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	err = errors.Join(os.WriteFile(chainFile, chain, 0o600), os.WriteFile(keyFile, key, 0o600))
	if err == nil {
		err = c.shown.SetCertificate(chainFile, keyFile)
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("taking up the gateway's certificate: %w", err)
	}
	return nil
}
