package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretType is the type of Secrets that are access keys.
const SecretType corev1.SecretType = "muster.dev/access-key"

// label has the key's name as its value, so that one is found in whichever namespace it
// is.
const label = "muster.dev/access-key"

// The fields of such a Secret.
const (
	idField     = "accessKeyID"
	secretField = "secretAccessKey"
	userField   = "user"
	groupsField = "groups"
)

// Key is an access key.
type Key struct {
	ID string
	// Secret is what requests are signed with. Lists leave it out.
	Secret string
	User   string
	Groups []string
	Made   time.Time
}

// object is the name of a key's Secret.
func object(id string) string { return "access-key-" + strings.ToLower(id) }

// Create makes a key in a namespace, for whoever the client is.
func Create(ctx context.Context, server client.Client, namespace string) (Key, error) {
	who := &authenticationv1.SelfSubjectReview{}
	if err := server.Create(ctx, who); err != nil {
		return Key{}, fmt.Errorf("asking who you are: %w", err)
	}
	k := Key{
		ID: "MU" + rand.Text()[:18], Secret: rand.Text() + rand.Text()[:14], // 200 random bits
		User: who.Status.UserInfo.Username, Groups: who.Status.UserInfo.Groups,
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: object(k.ID), Labels: map[string]string{label: k.ID}},
		Type:       SecretType,
		Immutable:  new(true),
		StringData: map[string]string{
			idField: k.ID, secretField: k.Secret, userField: k.User, groupsField: strings.Join(k.Groups, "\n"),
		},
	}
	if err := server.Create(ctx, s); err != nil {
		return Key{}, fmt.Errorf("storing the access key: %w", err)
	}
	k.Made = s.CreationTimestamp.Time
	return k, nil
}

// List are the keys of a namespace without their secrets, in the order of users, then
// of when they were made.
func List(ctx context.Context, server client.Reader, namespace string) ([]Key, error) {
	all := &corev1.SecretList{}
	if err := server.List(ctx, all, client.InNamespace(namespace), client.HasLabels{label}); err != nil {
		return nil, fmt.Errorf("listing access keys: %w", err)
	}
	var keys []Key
	for i := range all.Items {
		if k, ok := read(&all.Items[i]); ok {
			k.Secret = ""
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		if by := strings.Compare(a.User, b.User); by != 0 {
			return by
		}
		if by := a.Made.Compare(b.Made); by != 0 {
			return by
		}
		return strings.Compare(a.ID, b.ID)
	})
	return keys, nil
}

// Delete removes a key. The error wraps [fs.ErrNotExist] where there is none.
func Delete(ctx context.Context, server client.Client, namespace, id string) error {
	s := &corev1.Secret{}
	err := server.Get(ctx, client.ObjectKey{Namespace: namespace, Name: object(id)}, s)
	if err == nil {
		if k, ok := read(s); !ok || k.ID != id {
			err = fs.ErrNotExist
		}
	}
	if err == nil {
		err = server.Delete(ctx, s, client.Preconditions{UID: &s.UID})
	}
	if apierrors.IsNotFound(err) || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("access key %s: %w", id, fs.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("deleting access key %s: %w", id, err)
	}
	return nil
}

// read is the key that a Secret is, if it is one.
func read(s *corev1.Secret) (Key, bool) {
	k := Key{
		ID: string(s.Data[idField]), Secret: string(s.Data[secretField]), User: string(s.Data[userField]), Made: s.CreationTimestamp.Time,
	}
	if groups := string(s.Data[groupsField]); groups != "" {
		k.Groups = strings.Split(groups, "\n")
	}
	return k, s.Type == SecretType && k.ID != "" && k.Secret != "" && k.User != "" && s.Labels[label] == k.ID
}
