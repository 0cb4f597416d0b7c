package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Shards is the number of Secrets in which a vault keeps its keys.
	Shards = 8
	// ShardType is the type of these Secrets.
	ShardType corev1.SecretType = "muster.dev/access-keys"

	// mostOfShard bounds a shard, in bytes. Kubernetes allows 1 MiB in a Secret.
	mostOfShard = 512 << 10
	// mostOfEntry bounds a key, in bytes.
	mostOfEntry = 16 << 10
	// longestID bounds the name of a key, in bytes.
	longestID = 63
	// entryOverhead is the approximate size of an entry without its texts, in bytes.
	entryOverhead = 160
)

// writeBackoff paces the retries of a write that conflicts with other writes of the shard, for
// 3 to 5 seconds.
var writeBackoff = wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.5, Jitter: 1, Steps: 13}

// ErrFull is wrapped by the error of a write if the shard has no room.
var ErrFull = errors.New("there is no room for another access key")

// ShardName is the name of the Secret of shard i.
func ShardName(i int) string { return "muster-access-keys-" + strconv.Itoa(i) }

// shardOf is the shard of a key.
func shardOf(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // it never fails
	return int(h.Sum32() % Shards)
}

// validID reports whether an ID can be the name of a key.
func validID(id string) bool {
	return id != "" && len(id) <= longestID && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// The states of a key of an earlier version, which had a Secret of its own.
const (
	// copied means that the earlier Secret still counts, too: if it is gone before the key is
	// settled, an earlier manager has deleted the key.
	copied = "copied"
	// settled means that the earlier Secret no longer counts.
	settled = "settled"
)

// entry is a key in the data of a shard, under the key's ID.
type entry struct {
	Secret    string `json:"secret,omitempty"`
	Namespace string `json:"namespace"`
	// NamespaceUID is the UID of the namespace. A later namespace of the same name has another
	// UID, and the key does not open its datasets.
	NamespaceUID types.UID `json:"namespaceUID"`
	User         string    `json:"user"`
	Groups       []string  `json:"groups,omitempty"`
	Made         time.Time `json:"made"`
	Ends         time.Time `json:"ends,omitzero"`
	// Earlier is copied, settled, or empty.
	Earlier string `json:"earlier,omitempty"`
	// Deleted is the tombstone of a key of an earlier version: Copy does not copy it again.
	Deleted bool `json:"deleted,omitempty"`
}

func (e *entry) key(id string) Key {
	return Key{ID: id, Secret: e.Secret, Namespace: e.Namespace, User: e.User, Groups: e.Groups, Made: e.Made, Ends: e.Ends}
}

// size is the approximate size of an entry in a shard, in bytes.
func (e *entry) size() int {
	size := entryOverhead + len(e.Secret) + len(e.Namespace) + len(e.User)
	for _, group := range e.Groups {
		size += len(group) + 3
	}
	return size
}

// over reports whether a key, or the tombstone of a deleted key, has ended.
func (e *entry) over(now time.Time) bool { return !e.Ends.IsZero() && !now.Before(e.Ends) }

// decode reads an entry. It returns false if another program has written the entry, and the
// entry is no key: the vault leaves such an entry alone.
func decode(id string, text []byte) (entry, bool) {
	var e entry
	err := json.Unmarshal(text, &e)
	return e, err == nil && validID(id) && e.Namespace != "" && e.User != "" && (e.Secret != "") != e.Deleted
}

// put sets an entry in the data of a shard.
func put(data map[string][]byte, id string, e entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encoding access key %s: %w", id, err)
	}
	if len(text) > mostOfEntry {
		return fmt.Errorf("storing the access key: %s is in %d groups: user and groups are too long for a key, which has room for %d bytes", e.User, len(e.Groups), mostOfEntry)
	}
	data[id] = text
	return nil
}

// forget removes an entry from the data of a shard. If an earlier Secret may still
// hold the key, forget leaves a tombstone until the end of the key.
func forget(data map[string][]byte, id string, e entry) error {
	if e.Earlier == "" {
		delete(data, id)
		return nil
	}
	e.Secret, e.Groups, e.Deleted = "", nil, true
	return put(data, id, e)
}

func sizeOf(data map[string][]byte) int {
	size := 0
	for id, text := range data {
		size += len(id) + len(text)
	}
	return size
}

// read reads a shard. A shard that does not exist yet is empty and has no version.
func (v *Vault) read(ctx context.Context, i int) (*corev1.Secret, error) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: ShardName(i)}, Type: ShardType}
	err := v.Client.Get(ctx, client.ObjectKeyFromObject(s), s)
	switch {
	case apierrors.IsNotFound(err):
		s.ResourceVersion = ""
	case err != nil:
		return nil, fmt.Errorf("reading access keys in Secret %s/%s: %w", v.Namespace, ShardName(i), err)
	case s.Type != ShardType:
		return nil, fmt.Errorf("reading access keys in Secret %s/%s: its type is %q and has to be %q: delete that Secret, and the manager makes its own", v.Namespace, s.Name, s.Type, ShardType)
	}
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	return s, nil
}

// readAll returns the entries of all shards, by ID.
func (v *Vault) readAll(ctx context.Context) (map[string]entry, error) {
	var shards [Shards]*corev1.Secret
	group, ctx := errgroup.WithContext(ctx)
	for i := range Shards {
		group.Go(func() (err error) {
			shards[i], err = v.read(ctx, i)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := map[string]entry{}
	for i, s := range shards {
		for id, text := range s.Data {
			if e, ok := decode(id, text); ok && shardOf(id) == i {
				all[id] = e
			}
		}
	}
	return all, nil
}

// change changes the data of a shard. After a conflict with another writer it calls do again,
// with the new data. Each change also removes entries that have ended. An error of do ends
// change without a write.
func (v *Vault) change(ctx context.Context, i int, do func(data map[string][]byte) error) error {
	v.writing[i].Lock()
	defer v.writing[i].Unlock()
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, writeBackoff, func(ctx context.Context) (bool, error) {
		last = v.tryChange(ctx, i, do)
		if apierrors.IsConflict(last) || apierrors.IsAlreadyExists(last) || apierrors.IsNotFound(last) {
			return false, nil
		}
		return last == nil, last
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("giving up after %d attempts: %w", writeBackoff.Steps, last)
	}
	return err
}

func (v *Vault) tryChange(ctx context.Context, i int, do func(data map[string][]byte) error) error {
	s, err := v.read(ctx, i)
	if err != nil {
		return err
	}
	before := maps.Clone(s.Data)
	for id, text := range s.Data {
		if e, ok := decode(id, text); ok && e.over(v.now()) {
			delete(s.Data, id)
		}
	}
	if err := do(s.Data); err != nil {
		return err
	}
	if maps.EqualFunc(before, s.Data, func(a, b []byte) bool { return string(a) == string(b) }) {
		return nil
	}
	if size := sizeOf(s.Data); size > mostOfShard && size > sizeOf(before) {
		return fmt.Errorf("%w in Secret %s/%s, which has %d keys and would have %d bytes of %d", ErrFull, v.Namespace, s.Name, len(before), size, mostOfShard)
	}
	if s.ResourceVersion == "" {
		err = v.Client.Create(ctx, s)
	} else {
		err = v.Client.Update(ctx, s) // the API server refuses a stale version
	}
	if err != nil {
		return fmt.Errorf("writing access keys to Secret %s/%s: %w", v.Namespace, s.Name, err)
	}
	return nil
}

// living returns the UIDs of all namespaces. If the caller has read a shard before, they
// include the namespace of each valid key of the shard.
func (v *Vault) living(ctx context.Context) (map[types.UID]bool, error) {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	if err := v.Client.List(ctx, all); err != nil {
		return nil, fmt.Errorf("listing the namespaces of access keys: %w", err)
	}
	uids := make(map[types.UID]bool, len(all.Items))
	for i := range all.Items {
		uids[all.Items[i].UID] = true
	}
	return uids, nil
}

// namespace is the metadata of a namespace.
func (v *Vault) namespace(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := v.Client.Get(ctx, client.ObjectKey{Name: name}, there); err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return there, nil
}
