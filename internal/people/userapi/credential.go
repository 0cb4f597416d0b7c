package userapi

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/muster-dev/muster/internal/people/frontproxy"
	"github.com/muster-dev/muster/internal/people/peer"
)

const (
	// life is that of a credential. It cannot be taken back before.
	life = 15 * time.Minute
	// requestBytes is the largest request for a credential.
	requestBytes = 16 << 10
)

// credential answers with the API server behind its port, and to POST with a certificate
// for it.
func (s *Server) credential(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		send(w, http.StatusOK, s.o.Cluster)
		return
	case http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, POST")
		peer.Refuse(w, http.StatusMethodNotAllowed, fmt.Sprintf("the method %.32q is not allowed here: a credential is asked for by POST", r.Method))
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(silence)) // without one, the read takes its time
	key, status, err := readKey(http.MaxBytesReader(w, r.Body, requestBytes))
	if err != nil {
		peer.Refuse(w, status, fmt.Sprintf("reading the request for a credential: %v", err))
		return
	}
	made, err := s.sign(r, key)
	if err != nil {
		s.o.Log.Warn("a credential could not be made", "error", err)
		peer.Refuse(w, http.StatusServiceUnavailable, fmt.Sprintf("making a credential: %v", err))
		return
	}
	send(w, http.StatusCreated, made)
}

// sign makes the certificate of the caller.
func (s *Server) sign(r *http.Request, key crypto.PublicKey) (Credential, error) {
	caller, err := peer.FromContext(r.Context())
	if err != nil {
		return Credential{}, err
	}
	who, err := frontproxy.Identify(r.Context(), s.o.Directory, caller)
	if err != nil {
		return Credential{}, err
	}
	expires := s.o.Now().Add(life)
	certificate, err := s.o.Sign(key, who.User, who.Groups, life)
	if err != nil {
		return Credential{}, err
	}
	return Credential{Cluster: s.o.Cluster, Certificate: certificate, Expires: expires.UTC()}, nil
}

// readKey reads the key of a request, and checks that the caller has its private half.
func readKey(body io.Reader) (key crypto.PublicKey, status int, err error) {
	text, err := io.ReadAll(body)
	if err != nil {
		if _, large := errors.AsType[*http.MaxBytesError](err); large {
			return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("it has more than %d bytes", requestBytes)
		}
		return nil, http.StatusBadRequest, err
	}
	var wanted CredentialRequest
	if err := json.Unmarshal(text, &wanted); err != nil {
		return nil, http.StatusBadRequest, err
	}
	block, _ := pem.Decode(wanted.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, http.StatusBadRequest, errors.New(`it has no PEM block "CERTIFICATE REQUEST"`)
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, http.StatusBadRequest, err
	}
	if err := checkKey(request.PublicKey); err != nil {
		return nil, http.StatusBadRequest, err
	}
	if err := request.CheckSignature(); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("it is not signed by its own key: %w", err)
	}
	return request.PublicKey, 0, nil
}

// checkKey allows keys that are quick to check for a server.
func checkKey(key crypto.PublicKey) error {
	switch key := key.(type) {
	case ed25519.PublicKey:
		return nil
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return nil
		}
	}
	return fmt.Errorf("the key is of type %T: give an ECDSA key of P-256, or an Ed25519 key", key)
}

func send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the caller may be gone
}
