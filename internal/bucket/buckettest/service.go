package buckettest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"

	"github.com/muster-dev/muster/internal/bucket"
)

const (
	key    = "MUTEST"
	secret = "not-a-secret"
	region = "us-east-1"
	// theirs names a service of the developer's, to test against that one.
	theirs = "MUSTER_TEST_S3"
	// asked is the variable that makes a test's program the service of a folder.
	asked = "MUSTER_BUCKETTEST"
)

// Become makes a test's program the service where [Serve] started it for that, and does
// nothing otherwise. A TestMain begins with it, in packages whose tests call Serve.
func Become() {
	if dir := os.Getenv(asked); dir != "" {
		fmt.Fprintln(os.Stderr, "the S3 service ended:", serve(dir))
		os.Exit(1)
	}
}

// Serve serves a folder of the test's on loopback until the test ends. It returns how a
// bucket of a name is reached, which is not there yet, and a client that can make it.
// Where MUSTER_TEST_S3 names a service, such as http://127.0.0.1:9000, it is that one,
// and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say who asks.
func Serve(t testing.TB, name string) (bucket.Options, *minio.Client) {
	t.Helper()
	o := bucket.Options{Endpoint: os.Getenv(theirs), Bucket: name, Region: region}
	who := credentials.NewEnvAWS()
	if o.Endpoint == "" {
		o.Endpoint, o.AccessKey, o.SecretKey = "http://"+start(t), key, secret
		who = credentials.NewStaticV4(key, secret, "")
	}
	client, err := minio.New(strings.TrimPrefix(o.Endpoint, "http://"), &minio.Options{Creds: who, Region: region})
	if err != nil {
		t.Fatal(err)
	}
	return o, client
}

// start starts the process, which says where it listens.
func start(t testing.TB) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), self) // ended by its input, after what else is cleaned up
	cmd.Env = append(os.Environ(), asked+"="+t.TempDir())
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	out, failed := cmd.StdoutPipe()
	if err = errors.Join(err, failed); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close() // it ends with its input
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if address, is := strings.CutPrefix(lines.Text(), "listening: "); is {
			return address
		}
	}
	t.Fatal("the S3 service does not come up")
	return ""
}

// serve serves a folder until standard input ends.
func serve(dir string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	root, beside := filepath.Join(dir, "buckets"), filepath.Join(dir, "meta")
	if err := errors.Join(os.Mkdir(root, 0o755), os.Mkdir(beside, 0o755)); err != nil {
		return err
	}
	attributes, err := meta.NewSideCar(beside)
	if err != nil {
		return err
	}
	files, err := posix.New(root, attributes, posix.PosixOpts{NewDirPerm: 0o755, SideCarDir: beside})
	if err != nil {
		return err
	}
	for {
		taken, err := listen(files)
		if !taken {
			return err
		}
	}
}

// listen serves on a port that was free. It says whether somebody took it meanwhile.
func listen(files *posix.Posix) (taken bool, err error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return false, err
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		return false, err
	}
	taken = true
	who := auth.NewIAMServiceSingle(auth.Account{Access: key, Secret: secret, Role: auth.RoleAdmin})
	server, err := s3api.New(files, middlewares.RootUserConfig{Access: key, Secret: secret}, region, who, nil, nil, nil, nil,
		s3api.WithQuiet(), s3api.WithKeepAlive(), s3api.WithDisableACL(), s3api.WithConcurrencyLimiter(1000, 1000),
		s3api.WithOnListen(func() {
			taken = false
			fmt.Println("listening:", address)
		}))
	if err != nil {
		return false, err
	}
	err = server.ServeMultiPort([]string{address})
	return taken, err
}
