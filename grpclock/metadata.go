package grpclock

import (
	"context"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// A heldMetadata keeps the trailers that a handler sets until it is known
// whether the lock was lost, and in a unary call the header, too. If it was, the
// call has another answer than the handler's, to which they do not belong. A
// stream's header goes out with its first message, and is not held.
//
// It is the transport stream in the handler's context, by which grpc.SetTrailer
// and its like find the call.
type heldMetadata struct {
	grpc.ServerTransportStream // the call's
	setTrailer                 func(metadata.MD)

	mu                sync.Mutex // a handler may leave others at work and return
	headers, trailers bool       // whether they are held
	header, trailer   metadata.MD
	sent              metadata.MD // the header that the handler has sent itself
}

// holdMetadata returns a context for the handler of a unary call. Outside of a
// server there is nothing to hold, and the result is nil.
func holdMetadata(ctx context.Context) (context.Context, *heldMetadata) {
	call := grpc.ServerTransportStreamFromContext(ctx)
	if call == nil {
		return ctx, nil
	}
	h := &heldMetadata{
		ServerTransportStream: call, headers: true, trailers: true,
		setTrailer: func(md metadata.MD) { _ = call.SetTrailer(md) }, // fails if the call is over
	}
	return grpc.NewContextWithServerTransportStream(ctx, h), h
}

// holdTrailer returns a context for the handler of a stream, made of ctx.
func holdTrailer(ctx context.Context, ss grpc.ServerStream) (context.Context, *heldMetadata) {
	h := &heldMetadata{ServerTransportStream: grpc.ServerTransportStreamFromContext(ctx), trailers: true, setTrailer: ss.SetTrailer}
	if h.ServerTransportStream != nil {
		ctx = grpc.NewContextWithServerTransportStream(ctx, h)
	}
	return ctx, h
}

// SetHeader holds the header of a unary call, unless it was sent.
func (h *heldMetadata) SetHeader(md metadata.MD) error {
	if h.hold(&h.headers, &h.header, md) {
		return nil
	}
	return h.ServerTransportStream.SetHeader(md)
}

// SendHeader sends the header. It cannot be taken back any more.
func (h *heldMetadata) SendHeader(md metadata.MD) error {
	header, _ := h.let(false)
	header = metadata.Join(header, md)
	h.mu.Lock()
	h.sent = metadata.Join(h.sent, header)
	h.mu.Unlock()
	return h.ServerTransportStream.SendHeader(header)
}

// made returns what the handler of a unary call has set so far.
func (h *heldMetadata) made() (header, trailer metadata.MD) {
	if h == nil {
		return nil, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return metadata.Join(h.sent, h.header), h.trailer.Copy()
}

// SetTrailer holds the trailer.
func (h *heldMetadata) SetTrailer(md metadata.MD) error {
	if !h.hold(&h.trailers, &h.trailer, md) {
		h.setTrailer(md)
	}
	return nil
}

// hold adds md to what is held, if it is to be held.
func (h *heldMetadata) hold(is *bool, held *metadata.MD, md metadata.MD) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if *is {
		*held = metadata.Join(*held, md)
	}
	return *is
}

// let ends the holding of the header, or of everything, and returns what was
// held of that.
func (h *heldMetadata) let(everything bool) (header, trailer metadata.MD) {
	h.mu.Lock()
	defer h.mu.Unlock()
	header, h.headers, h.header = h.header, false, nil
	if everything {
		trailer, h.trailers, h.trailer = h.trailer, false, nil
	}
	return header, trailer
}

// end is called when the handler is done. What is held is the call's from then
// on, or dropped.
func (h *heldMetadata) end(drop bool) {
	if h == nil {
		return
	}
	header, trailer := h.let(true)
	if drop {
		return
	}
	if len(header) > 0 {
		_ = h.ServerTransportStream.SetHeader(header) // fails if the call is over
	}
	if len(trailer) > 0 {
		h.setTrailer(trailer)
	}
}
