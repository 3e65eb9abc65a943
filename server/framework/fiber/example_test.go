package redofiber_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/gofiber/fiber/v3"
	recovery "github.com/gofiber/fiber/v3/middleware/recover"

	"github.com/redo-go/redo/server"
	redofiber "github.com/redo-go/redo/server/framework/fiber"
	"github.com/redo-go/redo/store/memstore"
)

// A repeated request gets the first one's response, and the handler runs once.
func Example() {
	st := memstore.New()
	authenticate := func(c fiber.Ctx) error { // yours
		c.Locals("user", "alice")
		return c.Next()
	}

	mw, err := server.New(st, server.Required(), server.Principal(func(r *http.Request) string {
		return fiber.Locals[string](redofiber.Context(r), "user")
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	app := fiber.New()
	app.Use(recovery.New(), authenticate)
	app.Post("/charges/:id", redofiber.Middleware(mw), func(c fiber.Ctx) error {
		fmt.Println("charging", c.Params("id"))
		return c.Status(http.StatusCreated).JSON(fiber.Map{"charged": c.Params("id")})
	})

	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/charges/7", strings.NewReader(`{"cents":1000}`))
		r.Header.Set("Idempotency-Key", "charge-7")
		resp, err := app.Test(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		fmt.Println(resp.StatusCode, resp.Header.Get("Idempotency-Status"), string(body))
	}
	// Output:
	// charging 7
	// 201 stored {"charged":"7"}
	// 201 replayed {"charged":"7"}
}
