package upstream

import (
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/muster-dev/muster/internal/controlplane/contract"
)

const (
	// etcdQuota is where etcd refuses writes until space is made, bytes.
	etcdQuota = 4 << 30
	// defragAbove is how many megabytes a defragmentation at start must free
	// to be worth its time.
	defragAbove = 128
	// frugalSegment is the size of a segment of etcd's log where there is little
	// room, bytes. It is longer than any request.
	frugalSegment = 4 << 20
)

// etcdURL is etcd's address: a socket in the working folder, which is closed
// to others.
const etcdURL = "unix://" + contract.EtcdSocket

// startEtcd starts etcd. It returns once the socket accepts connections;
// requests wait until it serves.
func startEtcd(order contract.Order, reports *reporter) (*embed.Etcd, error) {
	client, err := url.Parse(etcdURL)
	if err != nil {
		return nil, fmt.Errorf("reading etcd's address: %w", err)
	}
	cfg := embed.NewConfig()
	cfg.Dir = order.EtcdDir()
	cfg.ListenClientUrls = []url.URL{*client}
	cfg.AdvertiseClientUrls = []url.URL{*client}
	cfg.ListenPeerUrls = nil // One member: it has nobody to listen to.
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = order.Unsafe
	cfg.QuotaBackendBytes = etcdQuota
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(reports))
	if !order.Bare {
		cfg.EnableGRPCGateway = false
		cfg.BootstrapDefragThresholdMegabytes = defragAbove
		// The only member is its own majority: it can elect itself soon.
		cfg.TickMs, cfg.ElectionMs = 20, 100
		// No follower will ever ask for old entries: keep few in memory.
		cfg.SnapshotCount, cfg.SnapshotCatchUpEntries = 5000, 100
	}
	if order.Frugal {
		wal.SegmentSizeBytes = frugalSegment
	}
	if err := checkLog(cfg.Dir); err != nil {
		return nil, err
	}
	store, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("starting etcd on %s: %w", cfg.Dir, err)
	}
	return store, nil
}

// etcdLogger writes warnings and worse to standard error, and tells the
// supervisor why etcd is about to end the process.
func etcdLogger(reports *reporter) *zap.Logger {
	encoder := zap.NewProductionEncoderConfig()
	encoder.EncodeTime = zapcore.ISO8601TimeEncoder
	stderr, _, err := zap.Open("stderr")
	if err != nil {
		return zap.NewNop()
	}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoder), stderr, zapcore.WarnLevel)
	return zap.New(&lastWords{Core: core, reports: reports}, zap.ErrorOutput(stderr)).Named("etcd")
}

// lastWords is a zap core that reports what ends the process.
type lastWords struct {
	zapcore.Core
	reports *reporter
	fields  []zapcore.Field
}

func (l *lastWords) With(fields []zapcore.Field) zapcore.Core {
	all := append(append([]zapcore.Field{}, l.fields...), fields...)
	return &lastWords{Core: l.Core.With(fields), reports: l.reports, fields: all}
}

func (l *lastWords) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if l.Enabled(entry.Level) {
		return checked.AddCore(entry, l)
	}
	return checked
}

func (l *lastWords) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if entry.Level >= zapcore.DPanicLevel {
		words := zapcore.NewMapObjectEncoder()
		for _, field := range append(append([]zapcore.Field{}, l.fields...), fields...) {
			field.AddTo(words)
		}
		message := entry.Message
		for _, key := range []string{"error", "path", "data-dir"} {
			if value, ok := words.Fields[key]; ok {
				message += fmt.Sprintf("; %s: %v", key, value)
			}
		}
		l.reports.send(contract.Report{Stage: contract.StageEtcd, Error: message})
	}
	return l.Core.Write(entry, fields)
}
