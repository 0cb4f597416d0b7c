//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/muster-dev/muster/test/e2e/harness"
)

// TestOpenCommit has many clients of S3 put pictures while a commit is open, with Muster
// killed among them: a pipeline that reads them runs once, when it is closed, over all of
// them.
func TestOpenCommit(t *testing.T) {
	m := plainTier.start(t)
	ns, ctx := m.Namespace(t), deadline(t, 3*time.Minute)
	muster := func(args ...string) harness.Result {
		t.Helper()
		return m.Run(ctx, append([]string{"-n", ns}, args...)...)
	}
	const clients, pictures = 4, 15
	type key struct{ AccessKeyID, SecretAccessKey, Region, Endpoint string }
	store := dataOf[key](t, muster("data", "key", "create", "-o", "json"))
	connect := func() *minio.Client {
		t.Helper()
		c, err := minio.New(strings.TrimPrefix(store.Endpoint, "http://"), &minio.Options{
			Creds: credentials.NewStaticV4(store.AccessKeyID, store.SecretAccessKey, ""), Region: store.Region, BucketLookup: minio.BucketLookupPath,
		})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	upload := func(round string) {
		t.Helper()
		c := connect()
		var work sync.WaitGroup
		for client := range clients {
			work.Go(func() {
				for i := range pictures {
					text := fmt.Sprintf("%s-%d-%d", round, client, i)
					if _, err := c.PutObject(ctx, "pictures", "main/"+text, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		work.Wait()
	}
	runs := func() (all []pipelineRun) {
		t.Helper()
		r := muster("pipeline", "runs", "counted", "-o", "json")
		expect(t, r, 0)
		if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil {
			t.Fatalf("%v: %s", err, r.Stdout)
		}
		return all
	}
	file := folder(t, map[string]string{"pipeline.yaml": `
metadata: {name: counted}
spec:
  stages:
  - name: copy
    input: {dataset: pictures, glob: "/*"}
    command: [sh, -c, 'cp $MUSTER_INPUT_PICTURES/* $MUSTER_OUTPUT']
    parallelism: {max: 2}
`})
	expect(t, muster("data", "create", "pictures"), 0)
	expect(t, muster("pipeline", "apply", "-f", file+"/pipeline.yaml"), 0)
	expect(t, muster("data", "open", "pictures"), 0, "a commit is open")
	upload("first")
	m.Kill9(t)
	if err := m.Start(ctx); err != nil {
		t.Fatal(err)
	}
	store.Endpoint = dataOf[key](t, muster("data", "key", "create", "-o", "json")).Endpoint // the port may be another one
	upload("second")
	expect(t, muster("data", "branch", "pictures"), 0, "OPENED", fmt.Sprint(2*clients*pictures))
	if all := runs(); len(all) > 0 {
		t.Errorf("it runs before the commit is closed: %+v", all)
	}
	expect(t, muster("data", "close", "pictures", "-m", "all of them"), 0, fmt.Sprint(2*clients*pictures, " added"))
	expect(t, muster("pipeline", "wait", "counted", "--timeout", "90s"), 0)
	all := runs()
	if len(all) != 1 || all[0].Phase != "Succeeded" {
		t.Fatalf("%+v", all)
	}
	if diff := cmp.Diff(map[string]int64{"copy": 2 * clients * pictures}, all[0].computed()); diff != "" {
		t.Error(diff)
	}
	expect(t, muster("data", "cat", "counted-copy:/second-3-14"), 0, "second-3-14")
	expect(t, muster("data", "log", "pictures"), 0, "all of them")
	expect(t, muster("data", "verify"), 0, "nothing is damaged")
}
