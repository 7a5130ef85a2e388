package supervisor

import (
	"log"
	"strings"

	"github.com/sirupsen/logrus"
)

// quiet is the logger of net/http, whose lines are about single connections.
func quiet(to logrus.FieldLogger) *log.Logger {
	return log.New(debugWriter{to.WithField("component", "http")}, "", 0)
}

type debugWriter struct{ to logrus.FieldLogger }

func (w debugWriter) Write(line []byte) (int, error) {
	w.to.WithField("detail", strings.TrimSpace(string(line))).Debug("connection trouble")
	return len(line), nil
}
