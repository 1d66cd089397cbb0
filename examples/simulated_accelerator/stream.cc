#include "stream.h"

#include <utility>

namespace sim {
namespace {

class Notification : public LaminaSyncNotificationImpl {
 public:
  static LaminaSyncNotificationImpl* Make(const LaminaEpApi& api, Stream& stream) {
    return new Notification(api, stream);
  }

 private:
  Notification(const LaminaEpApi& api, Stream& stream)
      : LaminaSyncNotificationImpl{}, api_(api), stream_(stream) {
    lamina_version = LAMINA_EP_API_VERSION;
    Release = [](LaminaSyncNotificationImpl* self) noexcept { delete &From(self); };
    Activate = [](LaminaSyncNotificationImpl* self) noexcept {
      return Answer(From(self).api_, [&] {
        From(self).event_ = From(self).stream_.Mark();
        return Outcome();
      });
    };
    WaitOnDevice = [](LaminaSyncNotificationImpl* self, LaminaSyncStreamImpl* consumer) noexcept {
      return Answer(From(self).api_, [&] {
        if (From(self).event_) Stream::From(consumer).WaitFor(From(self).event_);
        return Outcome();
      });
    };
    WaitOnHost = [](LaminaSyncNotificationImpl* self) noexcept {
      return Answer(From(self).api_,
                    [&] { return From(self).event_ ? From(self).event_->Wait() : Outcome(); });
    };
  }
  static Notification& From(LaminaSyncNotificationImpl* self) { return *static_cast<Notification*>(self); }

  const LaminaEpApi& api_;
  Stream& stream_;
  std::shared_ptr<Event> event_;  // of the last Activate
};

}  // namespace

Stream::Stream(const LaminaEpApi& api, std::shared_ptr<Device> device, LaminaStreamPurpose purpose)
    : LaminaSyncStreamImpl{}, api_(api), device_(std::move(device)), queue_(device_->queue(purpose)) {
  device_->StreamMade(1);
  lamina_version = LAMINA_EP_API_VERSION;
  Release = [](LaminaSyncStreamImpl* self) noexcept { delete &From(self); };
  GetHandle = [](LaminaSyncStreamImpl* self) noexcept -> void* { return self; };
  CreateNotification = [](LaminaSyncStreamImpl* self, LaminaSyncNotificationImpl** notification) noexcept {
    return Answer(From(self).api_, [&] {
      *notification = Notification::Make(From(self).api_, From(self));
      return Outcome();
    });
  };
  Flush = nullptr;  // nothing is held back
  LaminaSyncStreamImpl::Synchronize = [](LaminaSyncStreamImpl* self) noexcept {
    return Answer(From(self).api_, [&] { return From(self).Synchronize(); });
  };
}

Stream::~Stream() { device_->StreamMade(-1); }

LaminaSyncStreamImpl* Stream::Make(const LaminaEpApi& api, std::shared_ptr<Device> device,
                                   LaminaStreamPurpose purpose) {
  return new Stream(api, std::move(device), purpose);
}

void Stream::Put(std::function<Outcome()> work) {
  device_->WorkBegins();
  queue_.Put([state = state_, device = device_.get(), work = std::move(work)] {
    if (state->Get().ok()) {
      const Outcome outcome = work();
      if (!outcome.ok()) state->Set(outcome);
    }
    device->WorkEnds();
  });
}

Outcome Stream::PutAndWait(const std::function<Outcome()>& work) {
  Event done;
  device_->WorkBegins();
  queue_.Put([&] {
    Outcome outcome = state_->Get();
    if (outcome.ok()) outcome = work();
    device_->WorkEnds();
    done.Complete(outcome);
  });
  return done.Wait();
}

std::shared_ptr<Event> Stream::Mark() {
  auto event = std::make_shared<Event>();
  queue_.Put([state = state_, event] { event->Complete(state->Get()); });
  return event;
}

void Stream::WaitFor(std::shared_ptr<Event> event) {
  Put([event = std::move(event)] { return event->Wait(); });
}

Outcome Stream::Synchronize() {
  const Outcome outcome = Mark()->Wait();
  {
    const std::lock_guard lock(state_->mutex);
    state_->error = Outcome();
  }
  return outcome.ok() ? device_->Alive() : outcome;
}

}  // namespace sim
