package trust

import (
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// fileVariable and dirVariable name what takes the place of the system's own files.
const fileVariable, dirVariable = "SSL_CERT_FILE", "SSL_CERT_DIR"

// Pool returns the authorities that are believed: the system's, or Mozilla's where it has
// none and nobody has said by variables which these are, and those of a folder; empty: there
// is no folder. Each file of it holds certificates
// as PEM; names that begin with a dot are left out, as those by which a kubelet swaps what
// it mounts.
func Pool(folder string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's certificates of authorities: %w", err)
	}
	if os.Getenv(fileVariable) == "" && os.Getenv(dirVariable) == "" {
		if err := complete(pool); err != nil {
			return nil, err
		}
	}
	if folder == "" {
		return pool, nil
	}
	return pool, add(pool, folder)
}

// complete adds Mozilla's authorities where there are none.
func complete(pool *x509.CertPool) error {
	if !pool.Equal(x509.NewCertPool()) {
		return nil
	}
	for root := range bundle.Roots() {
		certificate, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			return fmt.Errorf("reading the certificates of authorities that come with the program: %w", err)
		}
		if root.Constraint == nil {
			pool.AddCert(certificate)
		} else {
			pool.AddCertWithConstraint(certificate, root.Constraint)
		}
	}
	return nil
}

// add adds the certificates in the files of a folder.
func add(pool *x509.CertPool, folder string) error {
	files, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("reading certificates of authorities: %w", err)
	}
	found := false
	for _, file := range files {
		if strings.HasPrefix(file.Name(), ".") {
			continue
		}
		path := filepath.Join(folder, file.Name())
		text, err := os.ReadFile(path) //nolint:gosec // the folder is what whoever starts Muster names
		if err != nil {
			return fmt.Errorf("reading certificates of authorities: %w", err)
		}
		if !pool.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s holds no certificate: give files of certificates as PEM (-----BEGIN CERTIFICATE-----)", path)
		}
		found = true
	}
	if !found {
		return fmt.Errorf("%s holds no file: give files of certificates as PEM", folder)
	}
	return nil
}
