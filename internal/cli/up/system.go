package up

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/account"
	"github.com/muster-dev/muster/internal/answer/archivedlog"
	"github.com/muster-dev/muster/internal/cli/answers"
	"github.com/muster-dev/muster/internal/cli/connection"
	"github.com/muster-dev/muster/internal/cli/exit"
	"github.com/muster-dev/muster/internal/cli/instance"
	"github.com/muster-dev/muster/internal/cli/top"
	"github.com/muster-dev/muster/internal/cli/up/posts"
	"github.com/muster-dev/muster/internal/cli/up/stores"
	"github.com/muster-dev/muster/internal/cli/website"
	"github.com/muster-dev/muster/internal/controller/pipeline"
	"github.com/muster-dev/muster/internal/controlplane"
	"github.com/muster-dev/muster/internal/dataset/egress"
	"github.com/muster-dev/muster/internal/door"
	"github.com/muster-dev/muster/internal/door/receiver"
	"github.com/muster-dev/muster/internal/environment/confinement"
	"github.com/muster-dev/muster/internal/node"
	"github.com/muster-dev/muster/internal/node/gpu"
	"github.com/muster-dev/muster/internal/node/identity"
	"github.com/muster-dev/muster/internal/node/network"
	"github.com/muster-dev/muster/internal/node/process"
	"github.com/muster-dev/muster/internal/node/subordinate"
	"github.com/muster-dev/muster/internal/node/userfiles"
	"github.com/muster-dev/muster/internal/osfile"
	"github.com/muster-dev/muster/internal/people/frontproxy"
	"github.com/muster-dev/muster/internal/people/owner"
	"github.com/muster-dev/muster/internal/people/peer"
	"github.com/muster-dev/muster/internal/people/userapi"
	"github.com/muster-dev/muster/internal/snapshot"
	"github.com/muster-dev/muster/internal/tenant"
	"github.com/muster-dev/muster/internal/visibility"
)

// several is what a Muster has that several users share, beside its stores.
type several struct {
	// socket is the path by which users reach it.
	socket string
	// owners finds the users of namespaces, and files works with their files.
	owners *identity.Users
	files  *userfiles.Helpers
	// ranges are numbers for images in user namespaces.
	ranges *subordinate.Table
	// noConsole says why there is no console.
	noConsole error
	// refusal is why a namespace may not have more files, once there is a node.
	refusal func(namespace string) string
	// posts let pods of stages reach the foreman.
	posts *posts.Posts
	// inherits is the namespace of the user to whom the folder of a Muster of one user goes.
	inherits string
}

// checkSystem refuses --system for other users than root.
func checkSystem() error {
	if uid := os.Geteuid(); uid != 0 {
		return exit.Usage("muster up --system was started by uid %d: it runs the jobs of all users as these users, so start it as root: sudo muster up --system", uid)
	}
	return nil
}

// systemPath is the PATH of a service of the machine, whoever starts it. The PATH of root's shell may lead
// to programs that only root may start, such as a Python below /root.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// sharing reads the flags of a Muster that several users share.
func (o *options) sharing(ctx context.Context) (s several, err error) {
	if !o.system {
		if o.owner != "" {
			return s, exit.Usage("--owner names the user to whom the data folder of one user goes: give --system, too")
		}
		return s, nil
	}
	if err := checkSystem(); err != nil {
		return s, err
	}
	if err := os.Setenv("PATH", systemPath); err != nil {
		return s, err
	}
	s.socket = o.factory.SocketPath()
	if o.owner == "" {
		return s, nil
	}
	users := account.New(account.Options{})
	defer users.Close()
	found, err := users.Find(ctx, o.owner)
	if err != nil {
		return s, fmt.Errorf("--owner: %w", err)
	}
	s.inherits = owner.Namespace(found.UID)
	return s, nil
}

// prepareSeveral prepares what needs no API server. Shim is the program of the helpers.
func (m *machine) prepareSeveral(shim string) (err error) {
	if !m.shared {
		return nil
	}
	m.several.owners = identity.New(identity.Options{Accounts: m.users, Shared: true, Processes: m.config.UserProcesses})
	m.several.files = userfiles.New(userfiles.Options{Program: shim})
	m.several.ranges, err = subordinate.Open(subordinate.Options{Path: m.path("subordinate.json"), Layers: containerdRoot})
	return err
}

// close ends what prepareSeveral and keepApart began.
func (s *several) close() {
	if s.posts != nil {
		s.posts.Close()
	}
	if s.files != nil {
		s.files.Close()
	}
}

// containerdRoot is the default folder of containerd's layers.
const containerdRoot = "/var/lib/containerd"

// inherit gives the folder of a Muster of one user to a user.
func (m *machine) inherit() error {
	if m.several.inherits == "" {
		return nil
	}
	return stores.Upgrade(string(m.home), m.several.inherits)
}

// sharing is that of the control plane; nil: it has one user.
func (m *machine) sharing() *controlplane.Sharing {
	if !m.shared {
		return nil
	}
	return &controlplane.Sharing{Version: m.version, Administrators: m.config.Administrators}
}

// ownerOf is [environment.Options.Owner]; nil: Muster has one user.
func (m *machine) ownerOf() func(context.Context, string) (confinement.User, error) {
	if !m.shared {
		return nil
	}
	return func(ctx context.Context, namespace string) (confinement.User, error) {
		user, err := m.several.owners.Owner(ctx, namespace)
		if err != nil {
			return confinement.User{}, err
		}
		uid, gid := user.Numbers()
		return confinement.User{UID: uid, GID: gid, Groups: user.Groups()}, nil
	}
}

// builds is the highest number of builds of environments at once. With two, the long build of one
// user does not keep all others waiting.
func (m *machine) builds() int {
	if m.shared {
		return 2
	}
	return 1
}

// refuse is why no environment is built for a namespace now; empty: nothing is against it.
func (m *machine) refuse(namespace string) string {
	if m.several.refusal == nil {
		return ""
	}
	return m.several.refusal(namespace)
}

// claimOwner is that of claims of volumes; nil: Muster has one user.
func (m *machine) claimOwner() func(namespace string) (uint32, bool) {
	if !m.shared {
		return nil
	}
	return owner.Of
}

// names are those that reasons in the objects of a namespace have for others; nil: the real ones.
func (m *machine) names() snapshot.Names {
	if !m.shared {
		return nil
	}
	return snapshot.NamesForOwners(visibility.Rule{ShowUsers: true}, m.users.Name)
}

// keepApart makes the node run pods as their users.
func (m *machine) keepApart(c *node.Config) (err error) {
	if !m.shared {
		return nil
	}
	m.several.posts, err = posts.New(posts.Options{Dir: m.path("posts"), Worker: m.worker, Serve: m.foreman.HandlerFor, Log: m.log})
	if err != nil {
		return err
	}
	c.Stages = m.several.posts
	c.Shared, c.UserFiles, c.UserProcesses = true, m.several.files, m.config.UserProcesses
	c.UserDisk = m.userDisk()
	c.Tenant = func(namespace string) network.Tenant {
		uid, _ := owner.Of(namespace) // pods of other namespaces do not start
		return network.Tenant{Namespace: namespace, UID: uid}
	}
	c.ImageUsers = func(namespace string) (*process.Users, error) {
		user, err := m.several.owners.Owner(context.Background(), namespace)
		if err != nil {
			return nil, err
		}
		uid, gid := user.Numbers()
		return m.several.ranges.Users(uid, gid)
	}
	return nil
}

// copies bounds copies of outputs to buckets. Users name the addresses, and Muster connects as root: to none of
// this machine's own. Nil: Muster has one user.
func (m *machine) copies() *pipeline.Egress {
	if !m.shared {
		return nil
	}
	guard := &egress.Guard{}
	return &pipeline.Egress{AtOnce: copiesAtOnce, Copies: egress.Options{
		Transport: guard.Transport(), AtOnce: copiesAtOnce, Pace: egress.Pace{Bytes: 1 << 20, In: 2 * time.Minute}, Buffers: egress.NewBuffers(copyBuffers),
	}}
}

const (
	// copiesAtOnce is the number of copies at a time, each of another user, and of files of each.
	copiesAtOnce = 4
	// copyBuffers bounds the memory of the parts of large files, in bytes.
	copyBuffers = 256 << 20
)

// arrivals is the number of bytes that workers may have brought to the foreman's folder, which is root's, and
// that are not in a store yet: a quarter of the file system. One user has half of it at most. 0: Muster has one
// user, who may fill the disk.
func (m *machine) arrivals() (int64, error) {
	if !m.shared {
		return 0, nil
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(string(m.home), &disk); err != nil {
		return 0, fmt.Errorf("measuring the disk of %s: %w", m.home, err)
	}
	return int64(disk.Blocks) * disk.Bsize / 4, nil
}

// userDisk is the most bytes that the files of one user may have: by default half of the disk.
func (m *machine) userDisk() int64 {
	if most := m.config.Quotas.Files.Value(); most > 0 {
		return most
	}
	size, _, err := osfile.Space(string(m.home))
	if err != nil {
		m.log.Warn("measuring the disk: files of users have no quota", "error", err)
		return 0
	}
	return size / 2
}

// openDoor opens the socket of the machine to its users. Call it once the S3 gateway listens. The group
// serves it until ctx ends.
func (m *machine) openDoor(ctx context.Context, group *errgroup.Group, n *node.Node) error {
	if !m.shared {
		return nil
	}
	prepare, err := m.tenants(ctx)
	if err != nil {
		return err
	}
	receive, api, err := m.receiver()
	if err != nil {
		return err
	}
	inside := peer.NewInside()
	console, commands := m.consoleOfUsers(ctx, inside, receive.Administrator)
	address, trust, err := m.plane.FrontProxy()
	if err != nil {
		return err
	}
	proxy, err := frontproxy.New(frontproxy.Options{Server: address, TLS: trust, Directory: m.users, Log: slog.NewLogLogger(m.log.Handler(), slog.LevelInfo)})
	if err != nil {
		return err
	}
	signer, err := m.plane.Signer()
	if err != nil {
		return err
	}
	server, err := userapi.New(userapi.Options{
		Directory: m.users, API: proxy, Door: m.answerUsers(n, api, receive, console), Console: commands, Sign: signer.Sign,
		Cluster: userapi.Cluster{Server: m.state.Server, Authority: m.plane.RESTConfig().CAData},
		Prepare: prepare, Log: m.log,
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.several.socket), 0o755); err != nil {
		return fmt.Errorf("making the folder of the socket: %w", err)
	}
	listener, err := peer.Listen(ctx, m.several.socket)
	if err != nil {
		return err
	}
	m.say("the users of this machine reach it by %s", m.several.socket)
	group.Go(func() error {
		defer proxy.Close()
		return named("the socket of the machine", server.Serve(ctx, listener, inside))
	})
	group.Go(func() error { return m.serveConsole(ctx, console) })
	return nil
}

// groupQueues are the queues of Unix groups that config.yaml names.
func (m *machine) groupQueues() ([]tenant.GroupQueue, error) {
	queues := make([]tenant.GroupQueue, 0, len(m.config.GroupQueues))
	for i, q := range m.config.GroupQueues {
		queue := tenant.GroupQueue{Group: q.Group, Queue: q.Queue}
		if err := queue.Validate(); err != nil {
			return nil, exit.Usage("config.yaml: groupQueues[%d]: %v", i, err)
		}
		queues = append(queues, queue)
	}
	return queues, nil
}

// tenants makes what users need before their first request, and ends a pending upgrade.
func (m *machine) tenants(ctx context.Context) (func(context.Context, peer.Peer) error, error) {
	scheme, err := connection.Scheme()
	if err != nil {
		return nil, err
	}
	admin, err := client.New(m.plane.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SystemNamespace}}
	if err := admin.Create(ctx, system); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("making the namespace %s: %w", system.Name, err)
	}
	queues, err := m.groupQueues()
	if err != nil {
		return nil, err
	}
	keeper, err := tenant.NewKeeper(tenant.KeeperOptions{Server: admin, Directory: m.users, Queues: queues})
	if err != nil {
		return nil, err
	}
	if uid, ok := owner.Of(m.several.inherits); ok {
		if err := keeper.Ensure(ctx, uid, nil); err != nil {
			return nil, err
		}
	}
	if err := stores.MoveObjects(ctx, admin, string(m.home)); err != nil {
		m.say("the upgrade is not complete: %v", err)
	}
	return func(ctx context.Context, p peer.Peer) error {
		return keeper.Ensure(ctx, p.UID, p.GIDs())
	}, nil
}

// receiver tells the door and the console who calls.
func (m *machine) receiver() (*receiver.Receiver, client.Client, error) {
	api, err := m.client()
	if err != nil {
		return nil, nil, err
	}
	groups := m.config.Administrators
	if groups == nil {
		groups = []string{controlplane.DefaultAdministrators}
	}
	return receiver.New(receiver.Options{API: api, Directory: m.users, Administrators: groups}), api, nil
}

// answerUsers returns the handlers of the door of this machine.
func (m *machine) answerUsers(n *node.Node, api client.Client, receive *receiver.Receiver, console *website.Console) http.Handler {
	says := answers.New(answers.Options{
		Cache: api, API: api, Logins: m.users.Name,
		Measure: top.Measured(func(context.Context) []gpu.Sample { return n.Samples() }),
		State: func() instance.State {
			state, _, _ := m.home.Read() // an unreadable one is empty
			err := m.several.noConsole
			if console != nil {
				state.Console, err = console.Address()
			}
			if err != nil {
				state.NoConsole = err.Error()
			}
			return state
		},
	})
	o := m.kept.door(api, says)
	o.Health, o.Logs, o.ShowUsers = says, archivedlog.In(string(m.home)), true
	o.Receive = receive.Receive
	return door.New(o).Handler()
}
