package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/muster-dev/muster/internal/data"
	"github.com/muster-dev/muster/internal/data/backend"
	"github.com/muster-dev/muster/internal/data/ref"
)

// victimVariable names a folder: the test's program is then the gateway that is killed.
const victimVariable = "MUSTER_TEST_GATEWAY_VICTIM"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimVariable); dir != "" {
		if err := victim(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// folderWorld is one dataset whose heads are in a folder.
type folderWorld struct {
	world
	heads *ref.Folder
}

// Heads implements [Catalog].
func (w *folderWorld) Heads(string, string) ref.Heads { return w.heads }

// victim serves a folder until it is killed, and says where.
func victim(ctx context.Context, dir string) error {
	folder, err := backend.OpenFolder(filepath.Join(dir, "bytes"))
	if err != nil {
		return err
	}
	w := &folderWorld{world: world{grants: map[string]Grant{"ALICE": {Secret: "wonderland", Namespace: "team", User: "alice"}}}}
	if w.heads, err = ref.OpenFolder(filepath.Join(dir, "heads")); err != nil {
		return err
	}
	store, err := data.Open(ctx, data.Options{Backend: folder})
	if err != nil {
		return err
	}
	port, err := free(ctx, 0)
	if err != nil {
		return err
	}
	g, err := New(Options{Stores: One{All: store, Uploads: folder}, Catalog: w, Keyring: w, Port: port})
	if err != nil {
		return err
	}
	return g.Serve(ctx, func(address string) { fmt.Println(address) })
}

// begin starts the victim; kill ends it as a power cut would end its process.
func begin(t *testing.T, dir string) (client *minio.Core, kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), victimVariable+"="+dir), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	client, err = minio.NewCore(strings.TrimSpace(strings.TrimPrefix(line, "http://")), &minio.Options{
		Creds: credentials.NewStaticV4("ALICE", "wonderland", ""), Region: Region, BucketLookup: minio.BucketLookupPath, MaxRetries: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return client, kill
}

// TestKilled kills the gateway while many put; what was acknowledged is there
// afterwards, and an upload goes on where it was.
func TestKilled(t *testing.T) {
	const clients, enough = 8, 60
	dir := t.TempDir()
	client, kill := begin(t, dir)
	id, err := client.NewMultipartUpload(t.Context(), "digits", "main/parts", minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := client.PutObjectPart(t.Context(), "digits", "main/parts", id, 1, strings.NewReader("one,"), 4, minio.PutObjectPartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pad := make([]byte, 60<<10) // so that contents are on their way before all have come
	_, _ = rand.Read(pad)
	var mu sync.Mutex
	acknowledged := map[string]string{}
	var work sync.WaitGroup
	for c := range clients {
		work.Go(func() {
			for i := 0; ; i++ {
				key, content := fmt.Sprintf("main/%d/%d", c, i), fmt.Sprintf("%d of %d, %s", i, c, pad)
				_, err := client.Client.PutObject(t.Context(), "digits", key, strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
				if err != nil {
					return // killed
				}
				mu.Lock()
				acknowledged[key] = content
				if len(acknowledged) == enough {
					go kill()
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	kill()
	client, _ = begin(t, dir)
	r := &rig{client: client}
	for key, want := range acknowledged {
		if got := r.get(t, key); got != want {
			t.Errorf("%s was acknowledged, and is: %.80q", key, got)
		}
	}
	second, err := client.PutObjectPart(t.Context(), "digits", "main/parts", id, 2, bytes.NewReader([]byte("two")), 3, minio.PutObjectPartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CompleteMultipartUpload(t.Context(), "digits", "main/parts", id, []minio.CompletePart{{PartNumber: 1, ETag: first.ETag}, {PartNumber: 2, ETag: second.ETag}}, minio.PutObjectOptions{})
	if got := r.get(t, "main/parts"); err != nil || got != "one,two" {
		t.Errorf("%s, %v", got, err)
	}
	t.Logf("%d were acknowledged", len(acknowledged))
}
