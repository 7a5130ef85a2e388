// Package api answers HTTP: it checks requests, has them generated and writes answers in the OpenAI form. gin is used here
// and nowhere else. It must not start processes, and it never logs what a client or the model wrote.
package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/sirupsen/logrus"

	"lilypad/supervisor/generate"
)

// Options are what the API needs of the rest of the supervisor.
type Options struct {
	Workers generate.Source
	Health  func() Health      // of the engine, now; it must not block
	Log     logrus.FieldLogger //
	Stop    context.Context    // when it ends, running answers end with an error frame; nil never does
	Started time.Time          // reported as the models' time of creation
	Control bool               // control tokens in what clients send act as such

	StartWait  time.Duration // how long a request waits for a worker that (re)starts; 0 means 8 s
	KeepAlive  time.Duration // between signs of life in a stream; 0 means 10 s
	WriteLimit time.Duration // how long a client may take no bytes; 0 means 30 s
	ReadLimit  time.Duration // how long a client may take to send its body; 0 means 60 s
}

// Health is the engine's state for /readyz.
type Health struct {
	Ready       bool
	Reason      string // why not, for a person: "loading", "restarting", "stalled" ...
	Done, Total int64  // bytes of the checkpoint made ready, while loading
	Incarnation int
}

// server holds what the handlers share.
type server struct {
	Options
	log logrus.FieldLogger

	mu       sync.Mutex
	template template // of the checkpoint that serves
}

// New returns the handler of the whole API.
func New(o Options) http.Handler {
	if o.Stop == nil {
		o.Stop = context.Background()
	}
	set := func(d *time.Duration, standard time.Duration) {
		if *d == 0 {
			*d = standard
		}
	}
	set(&o.StartWait, 8*time.Second)
	set(&o.KeepAlive, 10*time.Second)
	set(&o.WriteLimit, 30*time.Second)
	set(&o.ReadLimit, time.Minute)
	gin.SetMode(gin.ReleaseMode)
	s := &server{Options: o, log: o.Log.WithField("component", "api")}
	return s.routes()
}
