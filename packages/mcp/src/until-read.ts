/** Detects when a response, which can be a stream of any length, has ended. */

/** Returns the same response. `leave` is called once, when its body was read to the end or abandoned. */
export function untilRead(response: Response, leave: () => void): Response {
  if (response.body === null) {
    leave();
    return response;
  }
  let isOpen = true;
  const over = (): void => {
    if (isOpen) leave();
    isOpen = false;
  };
  const body = response.body.pipeThrough(new TransformStream({ flush: over, cancel: over }));
  return new Response(body, response);
}
