package image

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	images "github.com/containerd/containerd/api/services/images/v1"
	transfer "github.com/containerd/containerd/api/services/transfer/v1"
	"github.com/containerd/containerd/api/types"
	sides "github.com/containerd/containerd/api/types/transfer"
	"github.com/distribution/reference"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// hostsFolder is where containerd's other clients have how registries are
// reached: mirrors, certificates, plain HTTP.
const hostsFolder = "/etc/containerd/certs.d"

// Request asks for an image.
type Request struct {
	// Holder is the pod that holds the image from then on.
	Holder string
	// Name is the image's, as a pod writes it.
	Name string
	// Policy says when it is pulled.
	Policy Policy
	// Credentials are for the registries that ask for them.
	Credentials []Credential
	// Pulling is called before the image is pulled; nil: nobody is told.
	Pulling func()
}

// Image is an image that is here, unpacked.
type Image struct {
	// Name is the reference.
	Name string
	// Digest is that of what the reference stands for, a list of variants or a
	// manifest.
	Digest string
	// Env are the image's variables, NAME=value.
	Env []string
	// Entrypoint and Command are what it runs if nothing else is said.
	Entrypoint, Command []string
	// Dir is its working directory; empty: none.
	Dir string
	// User is whom it runs as, "user" or "user:group"; empty: root.
	User string

	chain string // the name of the topmost layer, unpacked
}

// Fetch makes sure that an image is here, as its policy says, and returns it.
// Any error but ctx's is a *Fault or worth trying again. One image is fetched
// by one caller at a time: members of a gang start together, and the second
// finds it here.
func (s *Store) Fetch(ctx context.Context, r Request) (Image, error) {
	full, err := parse(r.Name)
	if err != nil {
		return Image{}, err
	}
	done, err := s.await(ctx, full.String())
	if err != nil {
		return Image{}, err
	}
	defer done()
	if err := s.hold(ctx, r.Holder); err != nil {
		return Image{}, err
	}
	policy := policyFor(r.Policy, full)
	if policy != PolicyAlways {
		got, err := s.ready(ctx, r.Holder, full.String())
		switch {
		case err == nil:
			return got, nil
		case !errors.Is(err, errAbsent):
			return Image{}, err
		case policy == PolicyNever:
			return Image{}, &Fault{NeverPulled, fmt.Errorf("the image %s is not here, and its imagePullPolicy is Never; "+
				"import it (ctr --namespace %s images import FILE), or let it be pulled (IfNotPresent): %w", full, Namespace, err)}
		}
	}
	if r.Pulling != nil {
		r.Pulling()
	}
	if err := s.pull(ctx, full, r.Credentials); err != nil {
		return Image{}, err
	}
	return s.ready(ctx, r.Holder, full.String())
}

// errAbsent says that an image, or a part of it, is not here.
var errAbsent = errors.New("it was not pulled")

// absent makes errAbsent of what containerd does not find.
func absent(err error) error {
	if isCode(err, codes.NotFound) {
		return fmt.Errorf("%w: %s", errAbsent, words(err))
	}
	return errors.New(words(err))
}

// ready returns an image that is here, and unpacks it where it is not yet.
func (s *Store) ready(ctx context.Context, holder, name string) (Image, error) {
	found, err := s.images.Get(in(ctx, ""), &images.GetImageRequest{Name: name})
	if err != nil {
		return Image{}, fmt.Errorf("looking for the image %s: %w", name, absent(err))
	}
	v, err := s.variant(ctx, found.Image.Target)
	if err != nil {
		return Image{}, fmt.Errorf("reading the image %s: %w", name, err)
	}
	chain, err := s.unpack(ctx, holder, v)
	if err != nil {
		return Image{}, fmt.Errorf("unpacking the image %s: %w", name, err)
	}
	if err := s.note(ctx, found.Image); err != nil {
		return Image{}, err
	}
	c := v.settings.Config
	return Image{
		Name: name, Digest: found.Image.Target.Digest, Env: c.Env, Entrypoint: c.Entrypoint, Command: c.Cmd,
		Dir: c.WorkingDir, User: c.User, chain: chain,
	}, nil
}

// pull has containerd pull an image.
func (s *Store) pull(ctx context.Context, full reference.Named, credentials []Credential) error {
	ctx, cancel := context.WithCancel(in(ctx, ""))
	resolver := &sides.RegistryResolver{HostDir: hostsFolder}
	if len(credentials) > 0 {
		asked, wait, err := s.answer(ctx, full, credentials)
		if err != nil {
			cancel()
			return err
		}
		defer wait()
		resolver.AuthStream = asked
	}
	defer cancel()
	from, err := side(&sides.OCIRegistry{Reference: full.String(), Resolver: resolver})
	if err != nil {
		return err
	}
	to, err := side(&sides.ImageStore{
		Name: full.String(), Labels: map[string]string{labelUsed: s.now().UTC().Format(time.RFC3339)},
		Platforms: []*types.Platform{{OS: "linux", Architecture: runtime.GOARCH}},
	})
	if err != nil {
		return err
	}
	if _, err := s.transfers.Transfer(ctx, &transfer.TransferRequest{Source: from, Destination: to}); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &Fault{PullFailed, fmt.Errorf("pulling the image %s: %s", full, words(err))}
	}
	return nil
}

// side is an end of a transfer, which containerd knows by its bare name.
func side(m proto.Message) (*anypb.Any, error) {
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", proto.MessageName(m), err)
	}
	return &anypb.Any{TypeUrl: string(proto.MessageName(m)), Value: data}, nil
}
