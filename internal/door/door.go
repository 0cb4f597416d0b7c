package door

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/muster-dev/muster/api/v1alpha1"
	"github.com/muster-dev/muster/internal/answer/archivedlog"
	"github.com/muster-dev/muster/internal/data/warehouse"
	"github.com/muster-dev/muster/internal/door/depot"
	"github.com/muster-dev/muster/internal/turns"
	"github.com/muster-dev/muster/internal/visibility"
)

// Answers are what is told of the whole cluster, with the names that a caller sees. What
// is returned is sent as JSON. An error that has a status, as those of the API
// server have, is told with it.
type Answers interface {
	// Why says why a job, pod/NAME or gang/NAME of a namespace is where it is.
	Why(ctx context.Context, rule visibility.Rule, namespace, job string) (any, error)
	// Plan says where and when a job of a user would start; empty: it is not known
	// whose. What the job says of that itself is not to be believed.
	Plan(ctx context.Context, rule visibility.Rule, user string, job *v1alpha1.TrainingJob) (any, error)
	// Top shows nodes, GPUs and who holds them.
	Top(ctx context.Context, rule visibility.Rule) (any, error)
	// Queues shows every queue, who uses it and what waits in it.
	Queues(ctx context.Context, rule visibility.Rule) (any, error)
}

// Health says how Muster is, with the names that a caller sees. Results and errors are as
// those of [Answers].
type Health interface {
	// Status is how Muster and its nodes are, and how many jobs the caller has.
	Status(ctx context.Context, rule visibility.Rule) (any, error)
	// Doctor lists what keeps jobs of the caller from starting, and what to do.
	Doctor(ctx context.Context, rule visibility.Rule) (any, error)
}

// Logs has the output of pods that are gone, by the namespace and the UID of their job.
type Logs interface {
	// Pods lists the names of the pods.
	Pods(namespace, job string) ([]string, error)
	// Open reads the output of a pod. fs.ErrNotExist: there is none.
	Open(namespace, job string, kept archivedlog.Kept) (io.ReadCloser, error)
}

// Reports hears what agents say of how far the pods on their node are.
type Reports interface {
	// Take takes in what the agent of a node says of its pods, by UID. Pods that
	// it should not speak of are left out.
	Take(ctx context.Context, node string, said map[types.UID]v1alpha1.PodProgress) error
	// TakeData does so with how the data of pods stands, and returns the pods of which
	// it does not know, or not yet.
	TakeData(ctx context.Context, node string, said map[types.UID]v1alpha1.PodData) (unknown []types.UID, err error)
}

// Options are what a Door is made of.
type Options struct {
	// Address is what it listens on, as host:port.
	Address string
	// API is asked who a token belongs to, and keeps the certificate for agents.
	API client.Client
	// Receive finds out who sent a request. Default: by the token in it, with a
	// TokenReview of API.
	Receive func(*http.Request) (Caller, error)
	// Pods shows pods: which node's agent may read which code.
	Pods client.Reader
	// Namespace is that of the manager.
	Namespace string
	// Identity is this replica's name.
	Identity string
	// Code is where code is kept. Nil: nowhere, and whoever sends some is told
	// what to set.
	Code *depot.Depot
	// Data is where versioned data is kept. Nil: nowhere, as with Code.
	Data *warehouse.Warehouse
	// Keys makes access keys for S3 clients. Nil: there is no gateway for such.
	Keys Keys
	// Answers, Health and Logs answer. Nil: nobody does.
	Answers Answers
	Health  Health
	Logs    Logs
	// ShowUsers shows every caller which user holds which GPU, as on a machine of several
	// users.
	ShowUsers bool
	// Reports hears how far pods are. Nil: nobody does.
	Reports Reports
	// Orders says what agents are to fetch ahead. Nil: nothing is.
	Orders Orders
	// Shifts gives out the datums of a namespace's pipelines. It is nil, or returns
	// nil, where that is another replica's.
	Shifts func(namespace string) http.Handler
	// Log hears of what no caller can be told.
	Log *slog.Logger
	// Now is the clock. Default: [time.Now].
	Now func() time.Time
}

// Door is the server. It runs in every replica, elected or not.
type Door struct {
	opts    Options
	keeper  *keeper
	readers *readers
	lanes   lanes
	leases  *leases
	// began is since when what tokens say of users is believed.
	began time.Time
	// closing is closed once it serves nobody new: who waits for news is answered.
	closing chan struct{}
	// listens is closed once address is known.
	listens chan struct{}
	address string
}

// How long a request may take, and how large it may be.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// longest is how long anything may take that moves code.
	longest = time.Hour
	// linger is for how long who lost its turn may go on sending what nobody reads.
	linger = 2 * time.Second
	// answerTimeout is how long an answer may take.
	answerTimeout = 30 * time.Second
	headerBytes   = 64 << 10
	jobBytes      = 4 << 20
	reportBytes   = 1 << 20
)

// New makes a door; [Door.Start] opens it.
func New(o Options) *Door {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Receive == nil {
		o.Receive = newReception(o).receive
	}
	return &Door{opts: o, keeper: &keeper{opts: o}, readers: newReaders(o), lanes: newLanes(o.Now), leases: newLeases(mostLeases, o.Now), began: o.Now(), closing: make(chan struct{}), listens: make(chan struct{})}
}

// Address is what it listens on, once it does: it waits until then.
func (d *Door) Address() string {
	<-d.listens
	return d.address
}

// NeedLeaderElection says that every replica serves.
func (d *Door) NeedLeaderElection() bool { return false }

// Start serves until ctx ends and all that is under way is done, or 20 seconds
// later.
func (d *Door) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.opts.Address)
	if err != nil {
		return fmt.Errorf("opening the door: %w", err)
	}
	d.address = listener.Addr().String()
	close(d.listens)
	if !d.keeper.begin(ctx) {
		return listener.Close()
	}
	server := &http.Server{
		Handler: d.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: d.keeper.certificate},
		ErrorLog:  slog.NewLogLogger(d.opts.Log.Handler(), slog.LevelInfo),
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(listener, "", "") }()
	renewed := make(chan struct{})
	within, cancel := context.WithCancel(ctx)
	go func() {
		defer close(renewed)
		d.keeper.run(within)
	}()
	defer func() {
		cancel()
		<-renewed
	}()
	select {
	case err := <-done:
		return fmt.Errorf("serving the door: %w", err)
	case <-ctx.Done():
	}
	close(d.closing)
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer stop()
	if err := server.Shutdown(end); err != nil {
		_ = server.Close()
	}
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the door: %w", err)
	}
	return nil
}

// Handler is everything that is answered, also for a server other than that of
// [Door.Start].
func (d *Door) Handler() http.Handler {
	mux := http.NewServeMux()
	add := func(pattern string, l *turns.Lane, serve func(http.ResponseWriter, *http.Request, Caller) error) {
		mux.Handle(pattern, d.admit(l, serve))
	}
	const code = "/v1/namespaces/{namespace}/code/{digest}"
	add("GET "+code, d.lanes.down, d.sendCode) // HEAD, too
	add("PUT "+code, d.lanes.up, d.takeCode)
	const environment = "/v1/namespaces/{namespace}/environments/{key}"
	add("GET "+environment, d.lanes.down, d.sendEnvironment) // HEAD, too
	add("PUT "+environment, d.lanes.up, d.takeEnvironment)
	const objects = "/v1/namespaces/{namespace}/data"
	add("GET "+objects, d.lanes.read, d.listObjects)
	add("GET "+objects+"/{key...}", d.lanes.read, d.sendObject) // HEAD, too
	add("PUT "+objects+"/{key...}", d.lanes.store, d.takeObject)
	add("DELETE "+objects+"/{key...}", d.lanes.read, d.removeObject)
	add("GET /v1/namespaces/{namespace}/why/{job}", d.lanes.answer, d.why)
	add("GET /v1/namespaces/{namespace}/why/{kind}/{name}", d.lanes.answer, d.why)
	add("POST /v1/namespaces/{namespace}/plan", d.lanes.answer, d.plan)
	add("GET /v1/namespaces/{namespace}/top", d.lanes.answer, d.top)
	add("GET /v1/namespaces/{namespace}/queues", d.lanes.answer, d.queues)
	add("GET /v1/namespaces/{namespace}/status", d.lanes.answer, d.status)
	add("GET /v1/namespaces/{namespace}/doctor", d.lanes.answer, d.doctor)
	add("GET /v1/namespaces/{namespace}/archive/{job}", d.lanes.answer, d.archived)
	add("GET /v1/namespaces/{namespace}/archive/{job}/{pod}", d.lanes.down, d.sendLog)
	const keys = "/v1/namespaces/{namespace}/keys"
	add("GET "+keys, d.lanes.answer, d.listKeys)
	add("POST "+keys, d.lanes.answer, d.makeKey)
	add("DELETE "+keys+"/{key}", d.lanes.answer, d.removeKey)
	add("POST "+v1alpha1.DoorReports, d.lanes.report, d.takeReports)
	add("POST "+v1alpha1.DoorArrivals, d.lanes.report, d.takeArrivals)
	add("GET "+v1alpha1.DoorAhead, d.lanes.ahead, d.sendOrders)
	mux.Handle("/v1/namespaces/{namespace}/pods/{pod}/shift/{rest...}", d.admit(d.lanes.shift, d.passShift))
	// Whatever else is asked is answered only to those who say who they are.
	add("/", d.lanes.answer, func(http.ResponseWriter, *http.Request, Caller) error {
		return refuse(http.StatusNotFound, "the door has nothing of that name: is this program of another version than the cluster's? `muster version` says")
	})
	return mux
}

// admit lets in those who say who they are, a lane at a time.
func (d *Door) admit(l *turns.Lane, serve func(http.ResponseWriter, *http.Request, Caller) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(v1alpha1.DoorMark, "v1")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		caller, err := d.opts.Receive(r)
		if err != nil {
			d.tell(w, r, err)
			return
		}
		turn, err := l.In(r.Context(), caller.line(r), caller.party(r))
		if err != nil {
			d.tell(w, r, err)
			return
		}
		defer turn.Out()
		out := &steady{ResponseWriter: w, turn: turn}
		body := r.Body
		r.Body = &arriving{ReadCloser: body, turn: turn, control: http.NewResponseController(w)}
		err = serve(out, r, caller)
		switch {
		case err == nil:
		case out.begun:
			d.broken(r, err)
		case turn.Lost() != nil:
			d.turnAway(w, r, body, turn)
		default:
			d.tell(w, r, err)
		}
	})
}

// turnAway answers who lost its turn, which is the next one's from here on. It may
// still be sending, and would not see the answer if that met a closed connection: for
// a moment the rest is taken, and dropped.
func (d *Door) turnAway(w http.ResponseWriter, r *http.Request, body io.Reader, turn *turns.Turn) {
	turn.Out()
	control := http.NewResponseController(w)
	if r.ProtoMajor == 1 {
		_ = control.EnableFullDuplex() // else the rest comes before the answer
		w.Header().Set("Connection", "close")
	}
	d.say(w, r, turn.Lost())
	_ = control.Flush()
	_ = control.SetReadDeadline(time.Now().Add(linger))
	_, _ = io.Copy(io.Discard, body) // nobody misses it
}
