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
	// Where a key ends.
	endsField = "ends"
	// Where an earlier version kept a key elsewhere than in its namespace.
	namespaceField = "namespace"
)

// Key is an access key.
type Key struct {
	ID string
	// Secret is what requests are signed with. Lists leave it out.
	Secret string
	// Namespace is whose datasets it opens.
	Namespace string
	User      string
	Groups    []string
	Made      time.Time
	// Ends is when it is good no more. Zero: never.
	Ends time.Time
}

// over says that a key is good no more.
func (k *Key) over(now time.Time) bool { return !k.Ends.IsZero() && !now.Before(k.Ends) }

// object is the name of a key's Secret.
func object(id string) string { return "access-key-" + strings.ToLower(id) }

// Create makes a key in a namespace, for whoever the client is, that is good for a
// while; 0: for ever.
func Create(ctx context.Context, server client.Client, namespace string, life time.Duration) (Key, error) {
	who := &authenticationv1.SelfSubjectReview{}
	if err := server.Create(ctx, who); err != nil {
		return Key{}, fmt.Errorf("asking who you are: %w", err)
	}
	k := fresh(Key{Namespace: namespace, User: who.Status.UserInfo.Username, Groups: who.Status.UserInfo.Groups})
	if life > 0 {
		k.Ends = time.Now().Add(life).Truncate(time.Second)
	}
	return store(ctx, server, k)
}

// fresh gives a key its name and its secret.
func fresh(k Key) Key {
	k.ID, k.Secret = "MU"+rand.Text()[:18], rand.Text()+rand.Text()[:14] // 200 random bits
	return k
}

// checkGroups refuses groups that cannot be told apart once they are joined by lines.
func checkGroups(k Key) error {
	for _, group := range k.Groups {
		if group == "" || strings.Contains(group, "\n") {
			return fmt.Errorf("storing the access key: %s is in group %q: groups of keys have names of one line", k.User, group)
		}
	}
	return nil
}

// store makes the Secret of a key, in its namespace.
func store(ctx context.Context, server client.Client, k Key) (Key, error) {
	if err := checkGroups(k); err != nil {
		return Key{}, err
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: object(k.ID), Labels: map[string]string{label: k.ID}},
		Type:       SecretType,
		Immutable:  new(true),
		StringData: map[string]string{
			idField: k.ID, secretField: k.Secret, userField: k.User, groupsField: strings.Join(k.Groups, "\n"),
		},
	}
	if !k.Ends.IsZero() {
		s.StringData[endsField] = k.Ends.UTC().Format(time.RFC3339)
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
	inOrder(keys)
	return keys, nil
}

func inOrder(keys []Key) {
	slices.SortFunc(keys, func(a, b Key) int {
		if by := strings.Compare(a.User, b.User); by != 0 {
			return by
		}
		if by := a.Made.Compare(b.Made); by != 0 {
			return by
		}
		return strings.Compare(a.ID, b.ID)
	})
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
		Namespace: s.Namespace,
	}
	if of := string(s.Data[namespaceField]); of != "" {
		k.Namespace = of
	}
	whole := true
	if ends := string(s.Data[endsField]); ends != "" {
		var err error
		k.Ends, err = time.Parse(time.RFC3339, ends)
		whole = err == nil
	}
	if groups := string(s.Data[groupsField]); groups != "" {
		k.Groups = strings.Split(groups, "\n")
	}
	return k, whole && s.Type == SecretType && k.ID != "" && k.Secret != "" && k.User != "" && s.Labels[label] == k.ID
}
