// CartPole-v1 as gymnasium has it: the equations of Barto, Sutton and Anderson (1983), one Euler step of 0.02 s.

export const LIMIT = { position: 2.4, angle: (12 * 2 * Math.PI) / 360, steps: 500 };
const GRAVITY = 9.8, CART = 1.0, POLE = 0.1, HALF_LENGTH = 0.5, FORCE = 10.0, SECONDS = 0.02;
const MASS = POLE + CART, MOMENT = POLE * HALF_LENGTH;

/** A state near upright: position, velocity, angle, angular velocity, each within 0.05 of zero. */
export function reset(random = Math.random) {
  return Array.from({ length: 4 }, () => 0.1 * random() - 0.05);
}

/** The state after an action, 0 to the left and 1 to the right; `push` is a further force, of a visitor's finger. */
export function step([position, velocity, angle, spin], action, push = 0) {
  const force = (action === 1 ? FORCE : -FORCE) + push;
  const cosine = Math.cos(angle), sine = Math.sin(angle);
  const shared = (force + MOMENT * (spin * spin) * sine) / MASS;
  const turning = (GRAVITY * sine - cosine * shared) / (HALF_LENGTH * (4.0 / 3.0 - (POLE * (cosine * cosine)) / MASS));
  const acceleration = shared - (MOMENT * turning * cosine) / MASS;
  return [
    position + SECONDS * velocity,
    velocity + SECONDS * acceleration,
    angle + SECONDS * spin,
    spin + SECONDS * turning,
  ];
}

export function hasFallen([position, , angle]) {
  return Math.abs(position) > LIMIT.position || Math.abs(angle) > LIMIT.angle;
}
