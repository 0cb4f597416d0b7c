package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	images "github.com/containerd/containerd/api/services/images/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

const (
	// labelUsed says when an image was last used. Only what was pulled for
	// Muster has it: what somebody imported could not be had again.
	labelUsed = "muster.dev/used"
	// noteAfter is how old that may be before a further use is noted.
	noteAfter = time.Hour
)

// used is when an image was last used; false: it was not pulled for Muster.
func used(i *images.Image) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, i.Labels[labelUsed])
	return at, err == nil
}

// note notes that an image is used.
func (s *Store) note(ctx context.Context, i *images.Image) error {
	at, pulled := used(i)
	if !pulled || s.now().Sub(at) < noteAfter {
		return nil
	}
	ctx, cancel := context.WithTimeout(in(ctx, ""), answerWithin)
	defer cancel()
	// Of the target nothing is updated; containerd reads it all the same, and
	// ends where there is none.
	_, err := s.images.Update(ctx, &images.UpdateImageRequest{
		Image:      &images.Image{Name: i.Name, Target: i.Target, Labels: map[string]string{labelUsed: s.now().UTC().Format(time.RFC3339)}},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"labels." + labelUsed}},
	})
	if err != nil && !isCode(err, codes.NotFound) {
		return fmt.Errorf("noting that the image %s is used: %s", i.Name, words(err))
	}
	return nil
}

// Expire removes the images that were pulled and that nobody has used since
// before, and returns their names. Those that pods name, as they write them,
// are used now.
func (s *Store) Expire(ctx context.Context, before time.Time, named []string) (removed []string, err error) {
	var inUse []string
	for _, name := range named {
		if full, err := parse(name); err == nil {
			inUse = append(inUse, full.String())
		}
	}
	ask, cancel := context.WithTimeout(in(ctx, ""), answerWithin)
	defer cancel()
	all, err := s.images.List(ask, &images.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("listing images: %s", words(err))
	}
	var errs []error
	for _, i := range all.Images {
		if slices.Contains(inUse, i.Name) {
			errs = append(errs, s.note(ctx, i))
			continue
		}
		gone, err := s.expire(ctx, i.Name, before)
		if errs = append(errs, err); gone {
			removed = append(removed, i.Name)
		}
	}
	return removed, errors.Join(errs...)
}

// expire removes one image, unless it was used since. Nobody fetches it
// meanwhile.
func (s *Store) expire(ctx context.Context, name string, before time.Time) (bool, error) {
	done, err := s.await(ctx, name)
	if err != nil {
		return false, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(in(ctx, ""), cleanWithin)
	defer cancel()
	found, err := s.images.Get(ctx, &images.GetImageRequest{Name: name})
	if err == nil {
		if at, pulled := used(found.Image); !pulled || !at.Before(before) {
			return false, nil
		}
		_, err = s.images.Delete(ctx, &images.DeleteImageRequest{Name: name, Sync: true})
	}
	if isCode(err, codes.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("removing the image %s: %s", name, words(err))
	}
	return true, nil
}
