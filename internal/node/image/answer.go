package image

import (
	"context"
	"crypto/rand"
	"fmt"

	streaming "github.com/containerd/containerd/api/services/streaming/v1"
	sides "github.com/containerd/containerd/api/types/transfer"
	"github.com/distribution/reference"
	"google.golang.org/protobuf/proto"
)

// answer opens a stream on which containerd asks for the credentials of
// registries, and answers until ctx ends. It returns the stream's name, and
// how to wait for the end.
func (s *Store) answer(ctx context.Context, full reference.Named, credentials []Credential) (name string, wait func(), err error) {
	stream, err := s.streams.Stream(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("opening a stream for credentials: %s", words(err))
	}
	name = "muster-credentials-" + rand.Text()
	first, err := side(&streaming.StreamInit{ID: name})
	if err != nil {
		return "", nil, err
	}
	if err := stream.Send(first); err != nil {
		return "", nil, fmt.Errorf("opening a stream for credentials: %s", words(err))
	}
	if _, err := stream.Recv(); err != nil { // it is known by its name now
		return "", nil, fmt.Errorf("opening a stream for credentials: %s", words(err))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for answerOne(stream, full, credentials) == nil {
		}
	}()
	return name, func() { <-done }, nil
}

// answerOne answers one question. Its error, the end of the stream included,
// shows in what containerd then says of the pull.
func answerOne(stream streaming.Streaming_StreamClient, full reference.Named, credentials []Credential) error {
	question, err := stream.Recv()
	if err != nil {
		return err
	}
	var asked sides.AuthRequest
	if err := proto.Unmarshal(question.Value, &asked); err != nil {
		return err
	}
	reply := &sides.AuthResponse{AuthType: sides.AuthType_NONE}
	if c := choose(credentials, full, asked.Host); c != nil {
		reply.AuthType, reply.Username, reply.Secret = sides.AuthType_CREDENTIALS, c.Username, c.Password
		if c.Username == "" {
			reply.AuthType = sides.AuthType_REFRESH
		}
	}
	answer, err := side(reply)
	if err != nil {
		return err
	}
	return stream.Send(answer)
}
