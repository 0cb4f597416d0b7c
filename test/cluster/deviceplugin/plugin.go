package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// lookAgain is how often it is looked whether the kubelet listens.
	lookAgain = 100 * time.Millisecond
	// askWithin is how soon a kubelet asks for the devices of a plugin that it
	// has registered; one that does not has died in between.
	askWithin = 10 * time.Second
)

type plugin struct {
	folder, resource, variable, unhealthy string
	ids                                   []string
	hup                                   chan os.Signal
}

// session is a plugin as one kubelet sees it, from when it registers until the
// kubelet hangs up.
type session struct {
	api.UnimplementedDevicePluginServer
	plugin *plugin
	hungUp context.CancelFunc
	// asked gets a value when the kubelet asks for the devices.
	asked chan struct{}
}

// serve offers the devices until the kubelet hangs up or ctx ends.
func (p *plugin) serve(ctx context.Context) error {
	ctx, hungUp := context.WithCancel(ctx)
	defer hungUp()
	// A kubelet that starts clears the folder before it listens.
	if !p.kubeletListens(ctx) {
		return nil
	}
	path := filepath.Join(p.folder, p.socket())
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the socket of an earlier plugin: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return fmt.Errorf("listening for the kubelet: %w", err)
	}
	server := grpc.NewServer()
	asked := make(chan struct{}, 1)
	api.RegisterDevicePluginServer(server, &session{plugin: p, hungUp: hungUp, asked: asked})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if p.register(ctx) == nil && wasAsked(ctx, asked) {
		<-ctx.Done()
	}
	server.Stop()
	if err := <-served; err != nil {
		return fmt.Errorf("serving the kubelet: %w", err)
	}
	return nil
}

// kubeletListens waits until it does; false if ctx ends before.
func (p *plugin) kubeletListens(ctx context.Context) bool {
	for ctx.Err() == nil {
		connection, err := (&net.Dialer{}).DialContext(ctx, "unix", p.kubelet())
		if err == nil {
			_ = connection.Close()
			return true
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
	return false
}

func wasAsked(ctx context.Context, asked <-chan struct{}) bool {
	late := time.NewTimer(askWithin)
	defer late.Stop()
	select {
	case <-asked:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

// register tells the kubelet where the plugin listens.
func (p *plugin) register(ctx context.Context) error {
	connection, err := grpc.NewClient("unix://"+p.kubelet(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting with the kubelet: %w", err)
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(connection).Register(ctx, &api.RegisterRequest{
		Version: api.Version, Endpoint: p.socket(), ResourceName: p.resource, Options: &api.DevicePluginOptions{},
	})
	return err
}

// devices are all devices and how they are.
func (p *plugin) devices() *api.ListAndWatchResponse {
	var broken []string
	if data, err := os.ReadFile(p.unhealthy); err == nil {
		broken = strings.Fields(string(data))
	}
	list := &api.ListAndWatchResponse{}
	for _, id := range p.ids {
		health := api.Healthy
		if slices.Contains(broken, id) {
			health = api.Unhealthy
		}
		list.Devices = append(list.Devices, &api.Device{ID: id, Health: health})
	}
	return list
}

func (s *session) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch lasts as long as the kubelet does.
func (s *session) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	defer s.hungUp()
	select {
	case s.asked <- struct{}{}:
	default:
	}
	for {
		if err := stream.Send(s.plugin.devices()); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-s.plugin.hup:
		}
	}
}

// Allocate answers what the kubelet has picked, container by container.
func (s *session) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		for _, id := range container.DevicesIds {
			if !slices.Contains(s.plugin.ids, id) {
				return nil, fmt.Errorf("the kubelet picked %q, which is none of %s", id, strings.Join(s.plugin.ids, ", "))
			}
		}
		ids := slices.Sorted(slices.Values(container.DevicesIds))
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{s.plugin.variable: strings.Join(ids, ",")},
		})
	}
	return response, nil
}
