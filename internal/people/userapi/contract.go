package userapi

import "time"

// The paths of the server's own.
const (
	// DoorPath begins the paths of the door, which follow it.
	DoorPath = "/muster/door"
	// CredentialPath is where credentials are made: GET answers a [Cluster], POST of a
	// [CredentialRequest] a [Credential].
	CredentialPath = "/muster/v1/credential"
	// ConsolePath begins the paths by which commands ask the console for links, sessions and
	// tokens.
	ConsolePath = "/muster/v1/console"
)

// Cluster is the API server behind its port.
type Cluster struct {
	// Server is its address, https.
	Server string `json:"server"`
	// Authority has the certificates that sign its own, PEM.
	Authority []byte `json:"authority"`
}

// CredentialRequest asks for a credential.
type CredentialRequest struct {
	// Request is a certificate request (PKCS #10, PEM) for an ECDSA key of P-256 or an
	// Ed25519 key. Its signature proves that the caller has the key. Names in it do not
	// count.
	Request []byte `json:"request"`
}

// Credential is a client certificate of the caller.
type Credential struct {
	Cluster
	// Certificate is PEM.
	Certificate []byte `json:"certificate"`
	// Expires is the end of the certificate.
	Expires time.Time `json:"expires"`
}

// DefaultPath is the path of the socket of a machine.
const DefaultPath = "/run/muster/muster.sock"
