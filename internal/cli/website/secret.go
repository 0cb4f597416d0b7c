package website

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/internal/people/session"
)

const (
	// secretType is that of the Secret with the sessions; a policy lets the manager write no other.
	secretType = "muster.dev/console-sessions" //nolint:gosec // a type
	tableKey   = "table"
)

// SecretStore keeps the table of sessions in a Secret. A process that was replaced, and writes still, is
// refused: it does not know the newest version of the Secret.
type SecretStore struct {
	// API reads past any cache.
	API client.Client
	At  client.ObjectKey
	// Lost is told once another has written or removed the Secret: the table has to be read again. Nil: no
	// one is told.
	Lost func(error)

	mu      sync.Mutex
	version string // of the Secret; empty: there is none
}

// Load implements [session.Store].
func (s *SecretStore) Load(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := &corev1.Secret{}
	switch err := s.API.Get(ctx, s.At, there); {
	case apierrors.IsNotFound(err):
		s.version = ""
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the Secret %s: %w", s.At, err)
	case there.Type != secretType:
		return nil, fmt.Errorf("the Secret %s has the type %q, and not %q: remove it", s.At, there.Type, secretType)
	}
	s.version = there.ResourceVersion
	return there.Data[tableKey], nil
}

// Save implements [session.Store].
func (s *SecretStore) Save(ctx context.Context, table []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.At.Namespace, Name: s.At.Name, ResourceVersion: s.version},
		Type: secretType, Data: map[string][]byte{tableKey: table}}
	var err error
	if s.version == "" {
		err = s.API.Create(ctx, object)
	} else {
		err = s.API.Update(ctx, object)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), s.version != "" && apierrors.IsNotFound(err):
		err = fmt.Errorf("%w: %w", ErrOtherWriter, err)
		if s.Lost != nil {
			s.Lost(err)
		}
		return err
	case err != nil:
		return fmt.Errorf("writing the Secret %s: %w", s.At, err)
	}
	s.version = object.ResourceVersion
	return nil
}

// ErrOtherWriter means that the Secret was written or removed by another than this process.
var ErrOtherWriter = errors.New("another process has written or removed the sessions")

var _ session.Store = (*SecretStore)(nil)
