package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// before stores a key as a vault of an earlier version did.
func (s *safe) before(namespace, user string, life time.Duration) Key {
	s.Helper()
	k := fresh(Key{Namespace: namespace, User: user, Ends: s.now().Add(life).UTC()})
	o := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: object(k.ID), CreationTimestamp: metav1.NewTime(s.now().Truncate(time.Second)),
			Labels: map[string]string{label: k.ID, "muster.dev/access-key-namespace": namespace},
		},
		Type: SecretType, Immutable: new(true),
		Data: map[string][]byte{
			idField: []byte(k.ID), secretField: []byte(k.Secret), userField: []byte(user), groupsField: []byte("a\nb"),
			namespaceField: []byte(namespace), endsField: []byte(k.Ends.Format(time.RFC3339)),
		},
	}
	if err := s.Client.Create(s.Context(), o); err != nil {
		s.Fatal(err)
	}
	return k
}

// revoke deletes a key as a manager of an earlier version did.
func (s *safe) revoke(k Key) {
	s.Helper()
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: object(k.ID)}}
	if err := client.IgnoreNotFound(s.Client.Delete(s.Context(), o)); err != nil {
		s.Fatal(err)
	}
}

// left are the Secrets of an earlier version.
func (s *safe) left() int {
	s.Helper()
	all := &corev1.SecretList{}
	if err := s.Client.List(s.Context(), all, client.InNamespace(s.Namespace), client.HasLabels{label}); err != nil {
		s.Fatal(err)
	}
	return len(all.Items)
}

// TestUpgrade interrupts an upgrade after each write, and runs it again. Keys go on working,
// and keys that a manager of either version has deleted stay deleted.
func TestUpgrade(t *testing.T) {
	for n := 0; ; n++ {
		interrupted := false
		t.Run(fmt.Sprintf("after %d writes", n), func(t *testing.T) { interrupted = upgrade(t, n) })
		if t.Failed() {
			return
		}
		if !interrupted {
			if n < 10 {
				t.Errorf("the upgrade ended after %d writes, want at least 10", n)
			}
			return
		}
	}
}

// upgrade upgrades once with an interruption after n writes, then again. It reports whether
// the interruption took place.
func upgrade(t *testing.T, n int) bool {
	s, ctx := newSafe(t), t.Context()
	var stay []Key
	for i := range 6 {
		stay = append(stay, s.before("team", fmt.Sprint("user-", i), time.Hour))
	}
	revokedByOld, revokedByNew, revokedLater := s.before("team", "old", time.Hour), s.before("team", "new", time.Hour), s.before("other", "later", time.Hour)
	stranger := s.before("gone", "ada", time.Hour)
	ended := s.before("team", "ended", time.Minute)
	s.passed.Store(int64(2 * time.Minute))

	cut, writes, late := errors.New("interrupted"), 0, Key{}
	fail := func() error {
		if writes++; writes > n {
			return cut
		}
		return nil
	}
	try := func(do func() error) bool {
		s.fail.Store(&fail)
		err := do()
		s.fail.Store(nil)
		if err != nil && !errors.Is(err, cut) {
			t.Fatal(err)
		}
		return err == nil
	}
	run := func() bool {
		done := try(func() error { _, err := s.Copy(ctx); return err })
		// Both versions run now.
		s.revoke(revokedByOld)
		if err := s.Delete(ctx, "team", revokedByNew.ID, "new"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if late.ID == "" {
			late = s.before("team", "late", time.Hour)
		}
		return done && try(func() error { _, err := s.Settle(ctx); return err })
	}
	whole := run()
	if err := s.Delete(ctx, "other", revokedLater.ID, "later"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	// Upgrade again, without an interruption. The user retries the failed deletion, too.
	n = 1 << 30
	run()
	if err := s.Delete(ctx, "other", revokedLater.ID, "later"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	run()
	if left := s.left(); left != 0 {
		t.Errorf("%d Secrets of the earlier version are left", left)
	}
	known, err := s.keys(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range append(stay, late) {
		if got := known[k.ID]; got.Secret != k.Secret || got.User != k.User || len(got.Groups) != 2 || !got.Ends.Equal(k.Ends.Truncate(time.Second)) {
			t.Errorf("the key of %s is %+v, want %+v", k.User, got, k)
		}
	}
	for _, k := range []Key{revokedByOld, revokedByNew, revokedLater, stranger, ended} {
		if got, is := known[k.ID]; is && !got.over(s.now()) {
			t.Errorf("the key of %s is good", k.User)
		}
	}
	all, err := s.List(ctx, "team")
	if err != nil || len(all) != len(stay)+1 {
		t.Errorf("%+v, %v", all, err)
	}
	s.passed.Store(int64(2 * time.Hour))
	if err := s.Sweep(ctx); err != nil || len(s.data()) != 0 {
		t.Errorf("%d entries are left after the end of all keys, %v", len(s.data()), err)
	}
	return !whole
}

// TestCopiesOfDeletedKeys deletes a key between Copy and Settle. Copy does not copy it again
// from the Secret, which still exists.
func TestCopiesOfDeletedKeys(t *testing.T) {
	s, ctx := newSafe(t), t.Context()
	k := s.before("team", "ada", time.Hour)
	if n, err := s.Copy(ctx); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	s.grants(k.ID, true)
	if err := s.Delete(ctx, "team", k.ID, "ada"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Copy(ctx); err != nil {
			t.Fatal(err)
		}
	}
	s.grants(k.ID, false)
	if all, err := s.List(ctx, "team"); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if text := string(s.data()[k.ID]); text == "" || strings.Contains(text, k.Secret) {
		t.Errorf("the entry of the deleted key is %q", text)
	}
	if n, err := s.Settle(ctx); n != 1 || err != nil || s.left() != 0 {
		t.Error(n, err, s.left())
	}
}

// TestForeignSecrets: Secrets with the label of keys that hold no key stay.
func TestForeignSecrets(t *testing.T) {
	s := newSafe(t)
	for name, o := range map[string]*corev1.Secret{
		"another name": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: "MUA"}}, Type: SecretType, Data: map[string][]byte{idField: []byte("MUA"), secretField: []byte("s"), userField: []byte("u")}},
		"another type": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: "MUB"}}, Data: map[string][]byte{idField: []byte("MUB"), secretField: []byte("s"), userField: []byte("u")}},
	} {
		o.Namespace, o.Name = s.Namespace, strings.ReplaceAll(name, " ", "-")
		if err := s.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Settle(t.Context()); n != 0 || err != nil || s.left() != 2 || len(s.data()) != 0 {
		t.Error(n, err, s.left(), s.data())
	}
}
