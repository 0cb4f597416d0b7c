// Package contract is what the supervisor of the embedded control plane and
// its child process say to each other, and nothing else.
//
// An [Order] goes from the supervisor to the child, once, as one line of JSON
// on the child's standard input. The pipe then stays open. The line [Stop]
// tells the child to stop in order; an end of the pipe without it means that
// the supervisor died, in whatever way, and the child ends at once. [Report]s come back as lines of JSON on descriptor [ReportFD]. The
// API server's listening socket is handed over as descriptor [ListenerFD], so
// that the port is the supervisor's and stays taken while a child is replaced.
//
// It imports the standard library only: the supervisor must build without
// upstream.
package contract

import "path/filepath"

// Descriptors that the child inherits beyond the standard three.
const (
	// ListenerFD is the listening TCP socket of the API server.
	ListenerFD = 3
	// ReportFD is where the child writes its reports.
	ReportFD = 4
	// LockFD is a locked file that the child keeps open as long as it lives, so
	// that no two children ever share a data folder.
	LockFD = 5
)

// Verb is the hidden command of the binary that runs the child.
const Verb = "control-plane"

// Stop is the line on standard input that asks the child to stop in order.
const Stop = "stop"

// EtcdSocket is the name of etcd's socket, relative to the child's working
// folder: a relative name stays below the 108 bytes that a socket address may
// have, however deep the data folder is.
const EtcdSocket = "etcd.sock"

// ReadyPath is where the API server tells whether it is ready for Muster. Two
// of upstream's checks are left out: both wait a whole second before they look
// for the first time, and what they make sure of is not needed by anyone who is
// not waiting for them. The default roles are there from the second start on,
// and the supervisor and the controllers need none; the system priority classes
// are for pods that no one has here.
const ReadyPath = "/readyz?exclude=poststarthook/rbac/bootstrap-roles&exclude=poststarthook/scheduling/bootstrap-system-priority-classes"

// BareReadyPath is the same with nothing left out.
const BareReadyPath = "/readyz"

// Order is everything that the child must know.
type Order struct {
	// Bare starts kube-apiserver and etcd alone, with upstream's defaults
	// wherever the two run with them: the measure that Muster is held against.
	Bare bool `json:"bare,omitempty"`
	// DataDir is the data folder.
	DataDir string `json:"dataDir"`
	// Log is the file that standard output and error go to; the child rotates
	// it when it grows large.
	Log string `json:"log"`
	// ServiceCIDR is the range of ClusterIPs.
	ServiceCIDR string `json:"serviceCIDR"`
	// Kubeconfig is the kubeconfig of the upstream controllers.
	Kubeconfig string `json:"kubeconfig"`
	// AuthenticationConfig is the API server's authentication configuration.
	AuthenticationConfig string `json:"authenticationConfig"`
	// Shared is set where several users share the machine: requests are shared out among
	// users, a front proxy names them, anonymous requests are refused, and acts of
	// administrators are recorded.
	Shared bool `json:"shared,omitempty"`
	// AuditPolicy and AuditLog are the files of the record of a shared control plane.
	AuditPolicy string `json:"auditPolicy,omitempty"`
	AuditLog    string `json:"auditLog,omitempty"`
	// Unsafe leaves out fsync: for tests, whose data may be lost.
	Unsafe bool `json:"unsafe,omitempty"`
	// Frugal makes etcd take little room for its log: the disk is almost full.
	Frugal bool `json:"frugal,omitempty"`
}

// ReadyPath is where the API server is asked whether it is ready.
func (o Order) ReadyPath() string {
	// The rights of users and of Muster's own parts need the default roles.
	if o.Bare || o.Shared {
		return BareReadyPath
	}
	return ReadyPath
}

// EtcdDir is etcd's data folder.
func (o Order) EtcdDir() string { return filepath.Join(o.DataDir, "etcd") }

// PKIDir is the folder of certificates and keys.
func (o Order) PKIDir() string { return filepath.Join(o.DataDir, "pki") }

// Stage is how far the child has come.
type Stage string

// The stages, in their order.
const (
	// StageEtcd: etcd is starting, and has not read all of its data yet.
	StageEtcd Stage = "etcd"
	// StageAPIServer: etcd serves; the API server is starting.
	StageAPIServer Stage = "kube-apiserver"
	// StageControllers: the API server is ready, the controllers are started.
	StageControllers Stage = "kube-controller-manager"
)

// Report is one thing that the child says.
type Report struct {
	// Stage is what the report is about.
	Stage Stage `json:"stage"`
	// Error is the reason why the child is about to end; empty when the stage
	// was merely reached.
	Error string `json:"error,omitempty"`
}
