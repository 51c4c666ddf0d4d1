// Package logging builds the one zap logger that everything is given.
package logging

import (
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Options say how to log.
type Options struct {
	// Level is debug, info, warn or error. Default info.
	Level string
	// Format is console, for people, or json, for programs. Default console.
	Format string
	// To receives the lines. It need not be safe for concurrent use.
	To io.Writer
}

// New builds a logger. Of lines with the same message the first 20 in a second are
// written and then each 1000th, so that an outage under load does not fill the
// disk; at level debug all are.
func New(options Options) (*zap.Logger, error) {
	level := zapcore.InfoLevel
	if options.Level != "" {
		var err error
		if level, err = zapcore.ParseLevel(options.Level); err != nil || level > zapcore.ErrorLevel {
			return nil, fmt.Errorf("log level must be debug, info, warn or error, not %q", options.Level)
		}
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02T15:04:05.000Z07:00")
	var encoder zapcore.Encoder
	switch options.Format {
	case "", "console":
		encoder = zapcore.NewConsoleEncoder(encoding)
	case "json":
		encoder = zapcore.NewJSONEncoder(encoding)
	default:
		return nil, fmt.Errorf("log format must be console or json, not %q", options.Format)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(options.To)), level)
	if level > zapcore.DebugLevel {
		core = zapcore.NewSamplerWithOptions(core, time.Second, 20, 1000)
	}
	return zap.New(core), nil
}
